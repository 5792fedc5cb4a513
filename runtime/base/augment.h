/* Inputs of a training step that makes samples other ones itself, all f32 and by sample. */
#ifndef VTB_BASE_AUGMENT_H
#define VTB_BASE_AUGMENT_H

/* "augment.draw.VIEW.STREAM": uniform numbers of the sample's view, from 1, as op `random` draws
 * them of that stream for a sample by itself. */
#define VTB_AUGMENT_DRAW "augment.draw."
/* (B, 2, C): the mean and the deviation of images' channels. Where it is there, images are the
 * numbers of their bytes. */
#define VTB_AUGMENT_MOMENTS "augment.moments"

#endif
