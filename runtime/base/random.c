/* The counter-based random hash of op `random`. */
#include "runtime/base/random.h"

static uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

uint64_t vtb_random_u64(uint64_t key, uint64_t counter) {
  return mix64(mix64(counter + UINT64_C(0x9e3779b97f4a7c15)) ^
               mix64(key + UINT64_C(0xd1b54a32d192ed03)));
}

double vtb_random_unit(uint64_t key, uint64_t counter) {
  return (double)(vtb_random_u64(key, counter) >> 11) * 0x1p-53;
}
