/* From the parts of the norm to what the update does: control = (factor on the gradients, 1 if the step counts), and
 * the results for the host. One block. The numbers of scalars and results are those of runtime/train/update.h. */
  double sum = 0.0;
  float right = 0.0f;
  for (int i = vtb_tid(); i < ${pieces}; i += ${threads}) sum += parts[i];
  for (int i = vtb_tid(); i < ${batch}; i += ${threads}) right += hits[i];
  lanes[vtb_tid()] = sum;
  rights[vtb_tid()] = right;
  VTB_UNROLL for (int half = ${threads} / 2; half > 0; half /= 2) {
    vtb_sync();
    if (vtb_tid() < half) {
      lanes[vtb_tid()] += lanes[vtb_tid() + half];
      rights[vtb_tid()] += rights[vtb_tid() + half];
    }
  }
  if (vtb_tid() == 0) {
    const double total = lanes[0], norm = vtb_sqrt64(total) * scalars[${UNSCALE}], bound = scalars[${CLIP}];
    const float l = loss[0];
    const bool finite = total - total == 0.0, counts = finite && l - l == 0.0f;
    double factor = bound > 0.0 ? bound / (norm + 1e-6) : 1.0;
    if (factor > 1.0) factor = 1.0;
    int culprit = -1;
    for (int i = 0; !finite && culprit < 0 && i < ${pieces}; i++) {
      const double part = parts[i];
      if (part - part != 0.0) culprit = table[i * 4 + 2];
    }
    control[0] = (float)(factor * scalars[${UNSCALE}]);
    control[1] = counts ? 1.0f : 0.0f;
    result[${NORM}] = (float)norm;
    result[${COUNTS}] = counts ? 1.0f : 0.0f;
    result[${CORRECT}] = rights[0];
    result[${CULPRIT}] = (float)culprit;
  }
