/* The corrections of a recurrence that reads its own state, token by token: delta.cu says of what.
 * A block owns 32 columns of the state, a lane each, and its warps share the keys; the state is in
 * shared memory or, where it is too large, in a temporary. All rows of a token read the state, then
 * it decays and all of them are added. */
#include "scans.cuh"
hole int N, K, V, RANK;          /* tokens; of the state; rows a token */
hole int THREADS;
hole int DIRS, HEADS;            /* directions of the launch; heads */
hole code directions;            /* pointers of direction dir */
hole bool HELD;                  /* the state is in shared memory */
hole bool FIRST;                 /* a state is given */
hole expr memory;                /* of the state, unless it is HELD */
hole expr place;                 /* of step t */
hole expr decay;                 /* of key at pos */
hole expr k, v, by;              /* element x of row r at pos */
hole expr first;                 /* state of key and x */
hole expr w_at;                  /* offset for pos, r and x */
constexpr int BLOCKS = (V + 31) / 32, WARPS = THREADS / 32, OWN = (K + WARPS - 1) / WARPS;
cost issue = N * RANK * (WARPS * (OWN * 8 + 60));
cost registers = 40 + 2 * OWN;
cost chain = N * RANK * (OWN * 12 + 300);
shared float held[HELD ? K * 32 : 0];
shared float parts[2 * WARPS * 32], rows[RANK * 32]; /* of S^T b; w of the token */
const int scan = vtb_block() / BLOCKS, v0 = vtb_block() % BLOCKS * 32;
const int dir = scan % DIRS, b = scan / (DIRS * HEADS), h = scan / DIRS % HEADS;
${directions}
const int lane = vtb_lane(), warp = vtb_warp(), x = v0 + lane;
const int key0 = vtb_min_int(warp * OWN, K), key1 = vtb_min_int(key0 + OWN, K);
const bool real = x < V;
VTB_PTR(float) state = HELD ? held : ${memory};
auto place = [&](int t) -> int { return ${place}; };
auto k_at = [&](vtb_i64 pos, int r, int x) -> float { return ${k}; };
auto v_at = [&](vtb_i64 pos, int r) -> float { return ${v}; };
auto b_at = [&](vtb_i64 pos, int r, int x) -> float { return ${by}; };
auto decay_at = [&](vtb_i64 pos, int key) -> float { return ${decay}; };

for (int key = key0; key < key1; key++) {
  float s = 0.0f;
  if (FIRST && real) s = ${first};
  state[key * 32 + lane] = s;
}
for (int t = 0; t < N; t++) {
  const vtb_i64 pos = place(t);
  for (int r = 0; r < RANK; r++) {
    float sum = 0.0f;
    for (int from = key0; from < key1; from += 32) { /* lanes bring 32 keys' numbers */
      const float mine = from + lane < key1 ? b_at(pos, r, from + lane) : 0.0f;
      for (int i = 0; i < vtb_min_int(key1 - from, 32); i++)
        sum += vtb_shfl(mine, i) * state[(from + i) * 32 + lane];
    }
    const int at = r % 2 * WARPS * 32;
    parts[at + warp * 32 + lane] = sum;
    vtb_sync();
    if (warp == r % WARPS) {
      float w = real ? v_at(pos, r) : 0.0f;
      for (int i = 0; i < WARPS; i++) w += parts[at + i * 32 + lane];
      rows[r * 32 + lane] = w;
      if (real) result[${w_at}] = w;
    }
  }
  vtb_sync();
  for (int r = 0; r < RANK; r++) {
    const float w = rows[r * 32 + lane];
    for (int from = key0; from < key1; from += 32) {
      const bool have = from + lane < key1;
      const float mine = have ? k_at(pos, r, from + lane) : 0.0f;
      const float decay = have && r == 0 ? decay_at(pos, from + lane) : 1.0f;
      for (int i = 0; i < vtb_min_int(key1 - from, 32); i++) {
        const int own = (from + i) * 32 + lane;
        state[own] = vtb_shfl(decay, i) * state[own] + vtb_shfl(mine, i) * w;
      }
    }
  }
}
