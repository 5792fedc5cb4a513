/* y[lead, pick, rest] = x[lead, indices[lead, pick], rest], zeros where an index is outside. */
hole int PICKS, PLACES, REST;
hole int THREADS;
hole vtb_i64 ELEMENTS;      /* of y */
hole type value, number;    /* what a thread has; an int that counts ELEMENTS */
hole expr x_at, indices_at, y_at; /* offsets for lead, pick, place and rest */
constexpr int PER = sizeof(value) == 16 ? 4 : 1;
require REST % PER == 0;
const number i = ((number)vtb_block() * THREADS + vtb_tid()) * PER;
if (i < ELEMENTS) {
  const int rest = (int)(i % REST), pick = (int)(i / REST % PICKS), lead = (int)(i / REST / PICKS);
  const int place = indices[${indices_at}];
  value v = {};
  if (place >= 0 && place < PLACES) v = vtb_read<value>(x, ${x_at});
  vtb_write(y, ${y_at}, v);
}
