/* delta = dy . y - dlse, a warp a query and head. */
hole int N, HEADS, V;       /* queries; width */
hole vtb_i64 ITEMS;         /* queries of all heads and batch entries */
hole int THREADS;
hole expr y_at, dy_at;      /* offsets for b, i, head and x */
hole expr dlse;             /* of b, i and head */
const vtb_i64 item = (vtb_i64)vtb_block() * (THREADS / 32) + vtb_warp();
const int b = (int)(item / (N * HEADS)), i = (int)(item / HEADS % N), head = (int)(item % HEADS);
float sum = 0.0f;
if (item < ITEMS)
  for (int x = vtb_lane(); x < V; x += 32) sum += dy[${dy_at}] * y[${y_at}];
sum = vtb_warp_sum(sum);
if (item < ITEMS && vtb_lane() == 0) delta[item] = sum - ${dlse};
