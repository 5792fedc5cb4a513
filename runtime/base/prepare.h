/* Names of the ways to prepare images (runtime/image/prepare.h), for compiler and runtime. */
#ifndef VTB_BASE_PREPARE_H
#define VTB_BASE_PREPARE_H

#define VTB_META_PREPARE "prepare" /* the key of metadata */
/* in the order of vtb_filter and vtb_resize_mode */
#define VTB_FILTER_WORDS "bicubic", "bilinear", "nearest", "box", "hamming", "lanczos"
#define VTB_RESIZE_WORDS "crop", "squash", "pad"

#endif
