// Our numbers, types and functions of NVIDIA's libraries against their headers, at compile time: constants.h, device.h and
// functions.def. Without a GPU nothing else would notice a wrong one. Compiled by vendor_headers.sh; NCCL's part only where
// its header is.
#include <cublasLt.h>
#include <cuda.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#define HAVE_NCCL
#endif

#include <type_traits>

extern "C" {
#include "runtime/cuda/device.h"
}

// ---- numbers -----------------------------------------------------------------------------------------------------------
#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)
SAME(VTB__CU_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(VTB__CU_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(VTB__CU_SHARED_BYTES_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(VTB__CU_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(VTB__CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(VTB__CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(VTB__CU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(VTB__CU_EVENT_NO_TIME, CU_EVENT_DISABLE_TIMING);
SAME(VTB__CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(VTB__CU_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(VTB__CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(VTB__CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(VTB__CU_MAP_16_BITS, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME(VTB__CU_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(VTB__CU_MAP_TURNS_32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(VTB__CU_MAP_TURNS_64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(VTB__CU_MAP_TURNS_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(VTB__CU_MAP_FETCH_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(0, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(0, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
static_assert(sizeof(vtb__cu_map) == sizeof(CUtensorMap));
static_assert(sizeof(vtb_cu_attribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(vtb_cu_attribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(CUlaunchAttributeValue, clusterDim) == 0);
static_assert(sizeof(vtb_cu_launch) == sizeof(CUlaunchConfig));
static_assert(offsetof(vtb_cu_launch, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(vtb_cu_launch, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(vtb_cu_launch, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(vtb_cu_launch, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(vtb_cu_launch, n_attributes) == offsetof(CUlaunchConfig, numAttrs));
SAME(0, CUDA_SUCCESS);

SAME(VTB__LT_F32, CUDA_R_32F);
SAME(VTB__LT_F16, CUDA_R_16F);
SAME(VTB__LT_BF16, CUDA_R_16BF);
SAME(VTB__LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(VTB__LT_COMPUTE_F32_FAST_16F, CUBLAS_COMPUTE_32F_FAST_16F);
SAME(VTB__LT_COMPUTE_F32_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_16BF);
SAME(VTB__LT_COMPUTE_F32_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(VTB__LT_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(VTB__LT_TRANS_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(VTB__LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(VTB__LT_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(VTB__LT_LAYOUT_BATCH, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(VTB__LT_LAYOUT_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(VTB__LT_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(VTB__LT_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(VTB__LT_PREFERENCE_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(VTB__LT_PREFERENCE_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(VTB__LT_PREFERENCE_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(VTB__LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(0, CUBLAS_OP_N); // what trans_a and trans_b give
SAME(1, CUBLAS_OP_T);
SAME(0, CUBLAS_STATUS_SUCCESS);

static_assert(sizeof(vtb_lt_algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(vtb_lt_choice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(vtb_lt_choice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(vtb_lt_choice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

#ifdef HAVE_NCCL
SAME(VTB__NCCL_SUCCESS, ncclSuccess);
SAME(VTB__NCCL_IN_PROGRESS, ncclInProgress);
SAME(VTB__NCCL_FLOAT32, ncclFloat32);
SAME(VTB__NCCL_SUM, ncclSum);
static_assert(sizeof(vtb_cuda_group_id) == sizeof(ncclUniqueId));
#endif

// Its newer form is of 12.8 and gives the same.
#undef cuEventElapsedTime
extern "C" CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);

// ---- functions ---------------------------------------------------------------------------------------------------------
// Parameters agree if they are passed alike: an address may be a number of 64 bits, what is pointed to has one size.
template <class T> constexpr bool is_word = std::is_integral_v<T> || std::is_enum_v<T>;
template <class T> constexpr size_t size_behind() {
  if constexpr (std::is_pointer_v<T>) {
    using P = std::remove_pointer_t<T>;
    if constexpr (std::is_object_v<P> && requires { sizeof(P); }) return sizeof(P);
  }
  return 0; // unknown: void, or a type whose contents are private
}
template <class A, class B> constexpr bool alike() {
  if (sizeof(A) != sizeof(B)) return false;
  if (std::is_pointer_v<A> && std::is_pointer_v<B>)
    return !size_behind<A>() || !size_behind<B>() || size_behind<A>() == size_behind<B>();
  if (std::is_pointer_v<A> || std::is_pointer_v<B>) return is_word<A> || is_word<B>;
  return is_word<A> == is_word<B> && std::is_class_v<A> == std::is_class_v<B>;
}
template <class Ours, class Theirs> struct function;
template <class R, class... A, class S, class... B> struct function<R(A...), S(B...)> {
  static constexpr bool same() {
    if constexpr (sizeof...(A) == sizeof...(B))
      return alike<R, S>() && (alike<A, B>() && ...);
    else
      return false;
  }
};

// The header gives the plain name of a function that changed the number of its newest form.
constexpr bool equal(const char *a, const char *b) { return *a == *b && (!*a || equal(a + 1, b + 1)); }
#define TEXT(name) #name
#define CHECK_FUNCTION(type, name, parameters, text)                                                                   \
  static_assert(function<type parameters, decltype(name)>::same(), text " is declared otherwise");

#define VTB_CU(name, parameters)                                                                                       \
  CHECK_FUNCTION(vtb_cu_result, name, parameters, #name)                                                               \
  static_assert(equal(#name, TEXT(name)), #name " has a newer form");
#define VTB_LT(type, name, parameters) CHECK_FUNCTION(type, name, parameters, #name)
#ifdef HAVE_NCCL
#define VTB_NCCL(type, name, parameters) CHECK_FUNCTION(type, name, parameters, #name)
#endif
#include "runtime/cuda/functions.def"
