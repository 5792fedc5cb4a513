/* Numbers of cuda.h, cublasLt.h and nccl.h, whose headers nothing here needs:
 * tests/runtime/vendor_headers.c compares them, and the types and functions of device.h, with the
 * headers where those are installed. */
#ifndef VTB_CUDA_CONSTANTS_H
#define VTB_CUDA_CONSTANTS_H

/* cuda.h: CUdevice_attribute, CUfunction_attribute, CUstreamCaptureMode, CUstream_flags,
 * CUevent_flags */
enum {
  VTB__CU_CAPABILITY_MAJOR = 75,
  VTB__CU_CAPABILITY_MINOR = 76,
  VTB__CU_SHARED_BYTES_OPTIN = 97,
  VTB__CU_MAX_DYNAMIC_SHARED = 8,
  VTB__CU_CAPTURE_THREAD_LOCAL = 1,
  VTB__CU_STREAM_NON_BLOCKING = 1,
  VTB__CU_EVENT_DEFAULT = 0,
  VTB__CU_EVENT_NO_TIME = 2
};

/* cuda.h: CUpointer_attribute, CUmemorytype, CUstream of the default streams */
enum {
  VTB__CU_POINTER_MEMORY_TYPE = 2,
  VTB__CU_POINTER_DEVICE = 9,
  VTB__CU_MEMORY_HOST = 1,
  VTB__CU_STREAM_PER_THREAD = 2 /* the last of them */
};

/* cuda.h: CUlaunchAttributeID */
enum { VTB__CU_LAUNCH_CLUSTER = 4 };

/* cuda.h: CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion */
enum {
  VTB__CU_MAP_16_BITS = 1,
  VTB__CU_MAP_F32 = 7,
  VTB__CU_MAP_TURNS_32 = 1,
  VTB__CU_MAP_TURNS_64 = 2,
  VTB__CU_MAP_TURNS_128 = 3,
  VTB__CU_MAP_FETCH_128 = 2
};

/* library_types.h, cublas_api.h: cudaDataType, cublasComputeType_t */
enum {
  VTB__LT_F32 = 0,
  VTB__LT_F16 = 2,
  VTB__LT_BF16 = 14,
  VTB__LT_COMPUTE_F32 = 68,
  VTB__LT_COMPUTE_F32_FAST_16F = 74,
  VTB__LT_COMPUTE_F32_FAST_16BF = 75,
  VTB__LT_COMPUTE_F32_FAST_TF32 = 77
};

/* cublasLt.h: attributes of products, layouts and preferences; epilogues */
enum {
  VTB__LT_TRANS_A = 3,
  VTB__LT_TRANS_B = 4,
  VTB__LT_EPILOGUE = 7,
  VTB__LT_BIAS = 8,
  VTB__LT_LAYOUT_BATCH = 5,
  VTB__LT_LAYOUT_STRIDE = 6,
  VTB__LT_PREFERENCE_WORKSPACE = 1,
  VTB__LT_PREFERENCE_ALIGNMENT_A = 5, /* then B, C, D */
  VTB__LT_PREFERENCE_ALIGNMENT_B = 6,
  VTB__LT_PREFERENCE_ALIGNMENT_C = 7,
  VTB__LT_PREFERENCE_ALIGNMENT_D = 8,
  VTB__LT_EPILOGUE_BIAS = 4
};

/* nccl.h: ncclResult_t, ncclDataType_t, ncclRedOp_t */
enum { VTB__NCCL_SUCCESS = 0, VTB__NCCL_IN_PROGRESS = 7, VTB__NCCL_FLOAT32 = 7, VTB__NCCL_SUM = 0 };

#endif
