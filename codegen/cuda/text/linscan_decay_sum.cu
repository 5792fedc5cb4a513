/* dd[h] of class constant: the parts of all batch entries and chunks; a block owns a head of a
 * direction. */
hole int BATCH, N_CHUNKS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole expr dd_at;                 /* offset for h */
constexpr int BLOCKS = 1, ENTRY = DIRS * HEADS;
cost issue = 8 * (BATCH * N_CHUNKS + 31) / 32 + 60;
cost registers = 32;
cost chain = 20 * (BATCH * N_CHUNKS + 31) / 32 + 1000;
const int scan = vtb_block() / BLOCKS, dir = scan % DIRS, h = scan / DIRS % HEADS;
${directions}
float sum = 0.0f;
for (int i = vtb_lane(); i < BATCH * N_CHUNKS; i += 32)
  sum += part[((vtb_i64)(i / N_CHUNKS) * ENTRY + scan) * N_CHUNKS + i % N_CHUNKS];
sum = vtb_warp_sum(sum);
if (vtb_lane() == 0) dd[${dd_at}] = sum;
