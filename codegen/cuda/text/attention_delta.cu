/* delta = dy . y - dlse, a warp a query and head. */
constexpr int N = ${N}, HEADS = ${HEADS}, V = ${V};
const vtb_i64 item = (vtb_i64)vtb_block() * 4 + vtb_warp();
const int b = (int)(item / (N * HEADS)), i = (int)(item / HEADS % N), head = (int)(item % HEADS);
float sum = 0.0f;
if (item < ${ITEMS}ll)
  for (int x = vtb_lane(); x < V; x += 32) sum += ${dy} * ${y};
sum = vtb_warp_sum(sum);
if (item < ${ITEMS}ll && vtb_lane() == 0) delta[item] = sum - ${dlse};
