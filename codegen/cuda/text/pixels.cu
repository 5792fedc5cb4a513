/* Pixels of a batch, a byte each, as what a model takes: values[channel, pixel], and 0 inside the
 * box (x, y, width, height) that is erased of a sample. A thread makes four. */
hole int BATCH, CHANNELS, HEIGHT, WIDTH;
hole int THREADS;
constexpr int PLANE = HEIGHT * WIDTH;
constexpr int COUNT = BATCH * CHANNELS * PLANE;
const int first = (vtb_block() * THREADS + vtb_tid()) * 4;
if (first < COUNT) {
  const int four = bytes[first / 4];
  float made[4];
  VTB_UNROLL for (int k = 0; k < 4; k++) {
    const int i = first + k < COUNT ? first + k : COUNT - 1;
    const int box = i / (CHANNELS * PLANE) * 4;
    const int x = i % WIDTH - erased[box], y = i % PLANE / WIDTH - erased[box + 1];
    const bool gone = x >= 0 && x < erased[box + 2] && y >= 0 && y < erased[box + 3];
    const float value = values[i / PLANE % CHANNELS * 256 + ((four >> (8 * k)) & 255)];
    made[k] = gone ? 0.0f : value;
  }
  if (COUNT % 4 == 0) {
    vtb_f4 all = {made[0], made[1], made[2], made[3]};
    vtb_store4(image, first, all);
  } else {
    VTB_UNROLL for (int k = 0; k < 4; k++)
      if (first + k < COUNT) image[first + k] = made[k];
  }
}
