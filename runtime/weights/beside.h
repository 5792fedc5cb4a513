/* Metadata beside tensors: settings that trainings of this project leave there, and of folders of
 * Hugging Face config.json and preprocessor_config.json, which vtb_weights_open() leaves as
 * "hf.config" and "hf.preprocessor". */
#ifndef VTB_WEIGHTS_BESIDE_H
#define VTB_WEIGHTS_BESIDE_H

#include "runtime/artefact/tensors.h"
#include "runtime/image/prepare.h"

/* Preprocessing as such texts say it, a preprocessor_config.json or timm's part of a config.json;
 * either may be NULL. Both are UTF-8. */
VTB_MUST_USE vtb_status vtb_prepare_hf(vtb_preparation *p, const char *preprocessor,
                                       const char *config, vtb_error *err);
/* The same becomes the weights' "prepare", where built files and the C API find it. channels: of
 * the image input. */
VTB_MUST_USE vtb_status vtb_prepare_keep(vtb_weights *w, int channels, vtb_error *err);
/* Names of the classes, id2label or label_names, become the weights' "classes", a JSON list, where
 * they do not have one. What cannot be read names nothing. */
VTB_MUST_USE vtb_status vtb_classes_keep(vtb_weights *w, vtb_error *err);
/* The size of the image that the weights were made for, as their settings ("defines") say; false:
 * they do not. */
bool vtb_image_said(const vtb_weights *w, int *height, int *width);

#endif
