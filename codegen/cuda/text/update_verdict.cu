/* From the parts of the norm to what the update does: control = (factor on the gradients, 1 if the step counts), and
 * the results for the host. One block. The numbers of scalars and results are those of runtime/train/update.h. */
hole int PIECES, BATCH, THREADS;              /* of the gradients; images */
hole int UNSCALE, CLIP;                       /* numbers of scalars */
hole int NORM, COUNTS, CORRECT, CULPRIT;      /* of results */
shared double lanes[THREADS];
shared float rights[THREADS];
  double sum = 0.0;
  float right = 0.0f;
  for (int i = vtb_tid(); i < PIECES; i += THREADS) sum += parts[i];
  for (int i = vtb_tid(); i < BATCH; i += THREADS) right += hits[i];
  lanes[vtb_tid()] = sum;
  rights[vtb_tid()] = right;
  VTB_UNROLL for (int half = THREADS / 2; half > 0; half /= 2) {
    vtb_sync();
    if (vtb_tid() < half) {
      lanes[vtb_tid()] += lanes[vtb_tid() + half];
      rights[vtb_tid()] += rights[vtb_tid() + half];
    }
  }
  if (vtb_tid() == 0) {
    const double total = lanes[0], norm = vtb_sqrt64(total) * scalars[UNSCALE], bound = scalars[CLIP];
    const float l = loss[0];
    const bool finite = total - total == 0.0, counts = finite && l - l == 0.0f;
    double factor = bound > 0.0 ? bound / (norm + 1e-6) : 1.0;
    if (factor > 1.0) factor = 1.0;
    int culprit = -1;
    for (int i = 0; !finite && culprit < 0 && i < PIECES; i++) {
      const double part = parts[i];
      if (part - part != 0.0) culprit = table[i * 4 + 2];
    }
    control[0] = (float)(factor * scalars[UNSCALE]);
    control[1] = counts ? 1.0f : 0.0f;
    result[NORM] = (float)norm;
    result[COUNTS] = counts ? 1.0f : 0.0f;
    result[CORRECT] = rights[0];
    result[CULPRIT] = (float)culprit;
  }
