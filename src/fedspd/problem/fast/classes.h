/* The clipped gradient of three classes and more for one type of numbers, as `steps.h` has it for two.

   Classes stand side by side in LANES, filled up with empty places, so that a record's scores stay in registers. */

/* Probabilities less the label, in place of a record's scores; empty places get nothing. Returns their squared length. */
INLINE REAL NAME(slopes)(long wide, long label, REAL *restrict scores)
{
    NAME(Lanes) highest = *(NAME(Lanes) *)scores, sums = {0};
    NAME(Wholes) finite = highest < (REAL)INFINITY;
    for (long c = LANES; c < wide; c += LANES) {
        NAME(Lanes) at = *(NAME(Lanes) *)(scores + c);
        finite &= at < (REAL)INFINITY;
        highest = NAME(chosen)(at > highest, at, highest);
    }
    REAL top = highest[0], total = 0, square = 0;
    WHOLE all = finite[0];
    for (long i = 1; i < LANES; i++) {
        top = highest[i] > top ? highest[i] : top;
        all &= finite[i];
    }
    for (long c = 0; c < wide; c += LANES) {
        NAME(Lanes) *at = (NAME(Lanes) *)(scores + c);
        sums += *at = NAME(exponentials)(*at - top);
    }
#pragma omp simd reduction(+ : total)
    for (long i = 0; i < LANES; i++) total += sums[i];
    REAL over = all ? 1 / total : (REAL)NAN;
    for (long c = 0; c < wide; c += LANES) *(NAME(Lanes) *)(scores + c) *= over;
    scores[label] -= 1;
#pragma omp simd reduction(+ : square)
    for (long c = 0; c < wide; c++) square += scores[c] * scores[c];
    return square;
}

/* One client's sum of clipped gradients into `sum`, by weights whose rows are `wide`; the share that was clipped.

   `scores` has room for FOUR records, and before them what those of empty places begin with. */
INLINE REAL NAME(batch_of_many)(long records, long columns, long outputs, long wide, const REAL *restrict features,
                                const REAL *restrict labels, const REAL *restrict shares, REAL divisor, REAL bound,
                                const REAL *restrict weights, REAL *restrict sum, REAL *restrict norms,
                                REAL *restrict nowhere)
{
    long longer = 0, present = 0;
    REAL *scores = nowhere + wide;
    for (long i = 0; i < columns * wide; i++) sum[i] = 0;
    for (long c = 0; c < wide; c++) nowhere[c] = c < outputs ? 0 : (REAL)-1e30;
    for (long r = 0; r < records; r += FOUR) {
        long count = records - r < FOUR ? records - r : FOUR;
        const REAL *first = features + r * columns, *row[FOUR];
        for (long t = 0; t < FOUR; t++) row[t] = NAME(row)(first, columns, t, count);
        for (long c = 0; c < wide; c += LANES) {
            NAME(Lanes) score[FOUR];
            for (long t = 0; t < FOUR; t++) score[t] = *(const NAME(Lanes) *)(nowhere + c);
            for (long j = 0; j < columns; j++) {
                NAME(Lanes) weight = *(const NAME(Lanes) *)(weights + j * wide + c);
                for (long t = 0; t < FOUR; t++) score[t] += row[t][j] * weight;
            }
            for (long t = 0; t < FOUR; t++) *(NAME(Lanes) *)(scores + t * wide + c) = score[t];
        }
        REAL counts[FOUR] = {0};
        for (long t = 0; t < count; t++) {
            REAL square = NAME(dot)(row[t], row[t], columns);
            REAL norm = SQRT(square * NAME(slopes)(wide, (long)labels[r + t], scores + t * wide)), over = norm / bound;
            if (norms) norms[r + t] = norm;
            longer += norm > bound;
            present += square > 0;
            over = (over > 1 ? over : 1) * divisor;
            counts[t] = (shares ? shares[r + t] : 1) / over;
        }
        for (long t = count; t < FOUR; t++)
            for (long c = 0; c < wide; c++) scores[t * wide + c] = 0;
        for (long c = 0; c < wide; c += LANES) {
            NAME(Lanes) slope[FOUR];
            for (long t = 0; t < FOUR; t++) slope[t] = *(const NAME(Lanes) *)(scores + t * wide + c) * counts[t];
            for (long j = 0; j < columns; j++) {
                NAME(Lanes) *to = (NAME(Lanes) *)(sum + j * wide + c), at = *to;
                for (long t = 0; t < FOUR; t++) at += row[t][j] * slope[t];
                *to = at;
            }
        }
    }
    return (REAL)longer / (REAL)(present > 0 ? present : 1);
}
