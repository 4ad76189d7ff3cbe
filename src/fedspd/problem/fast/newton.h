/* Semismooth Newton steps for one client's sub-problem in the contrast: the loop of `problem.minimize._newton`.

   Only records whose gradients are not clipped bend the objective, so only their rows make up the matrix. */

#define TILE 4
typedef double Wide __attribute__((vector_size(64), aligned(8)));

typedef struct {
    long records, columns;
    const double *features, *labels, *lengths, *pull;
    double share, curvature, clip_norm, goal, pulled;
} Problem;

typedef struct {
    double *contrast, *scores, *bends, *gradient;
    double slope, rounding;
} Point;

INLINE double slope_of(const Problem *p, long r, double score, int *unclipped)
{
    double against = -score < 80 ? -score : 80;
    double slope = 1 / (1 + exp(against)) - p->labels[r];
    double over = p->lengths[r] * fabs(slope) / p->clip_norm;
    *unclipped = over <= 1;
    return over > 1 ? slope / over : slope;
}

INLINE void look(const Problem *p, Point *here)
{
    double norm = sqrt(dot_float64(here->contrast, here->contrast, p->columns)), terms = 0;
    for (long j = 0; j < p->columns; j++) here->gradient[j] = p->curvature * here->contrast[j] - p->pull[j];
    for (long r = 0; r < p->records; r++) {
        const double *row = p->features + r * p->columns;
        double score = dot_float64(row, here->contrast, p->columns);
        int unclipped;
        double slope = p->share * slope_of(p, r, score, &unclipped), size = fabs(score);
        double tail = exp(-(size < 80 ? size : 80));
        double bend = unclipped ? p->share * tail / ((1 + tail) * (1 + tail)) : 0;
        here->scores[r] = score;
        here->bends[r] = bend;
        terms += p->lengths[r] * (fabs(slope) + bend * p->lengths[r] * norm);
        add_float64(here->gradient, slope, row, p->columns);
    }
    here->slope = sqrt(dot_float64(here->gradient, here->gradient, p->columns));
    here->rounding = 2.220446049250313e-16 * (terms + p->curvature * norm + p->pulled);
}

/* The upper triangle of the second derivative, in tiles of TILE rows by eight columns that stay in registers. */
INLINE void bend_matrix(long rows, long columns, long wide, const double *restrict scaled, double *restrict matrix)
{
    for (long i = 0; i < columns; i += TILE)
        for (long j = i / 8 * 8; j < wide; j += 16) {
            Wide low[TILE] = {0}, high[TILE] = {0};
            int both = j + 8 < wide;
            for (long r = 0; r < rows; r++) {
                const double *row = scaled + r * wide;
                Wide first = *(const Wide *)(row + j), second = *(const Wide *)(row + (both ? j + 8 : j));
                for (long t = 0; t < TILE; t++) {
                    low[t] += row[i + t] * first;
                    high[t] += row[i + t] * second;
                }
            }
            for (long t = 0; t < TILE; t++) {
                *(Wide *)(matrix + (i + t) * wide + j) = low[t];
                if (both) *(Wide *)(matrix + (i + t) * wide + j + 8) = high[t];
            }
        }
}

/* Minus the gradient over the second derivative, by Cholesky's factors; 0 where rounding left none. */
INLINE int direction_of(const Problem *p, const Point *here, double *scaled, double *matrix, double *direction)
{
    long n = p->columns, wide = (n + 15) / 16 * 16, rows = 0;
    double size = 0;
    for (long r = 0; r < p->records; r++) {
        if (!(here->bends[r] > 0)) continue;
        double root = sqrt(here->bends[r]), *to = scaled + rows++ * wide;
        const double *row = p->features + r * n;
        for (long j = 0; j < n; j++) to[j] = root * row[j];
        for (long j = n; j < wide; j++) to[j] = 0;
        size += here->bends[r] * p->lengths[r] * p->lengths[r];
    }
    bend_matrix(rows, n, wide, scaled, matrix);
    for (long i = 0; i < n; i++) matrix[i * wide + i] += p->curvature + 2.220446049250313e-16 * size;
    for (long i = 0; i < n; i++) { /* matrix = U^T U, row by row */
        double pivot = matrix[i * wide + i];
        if (!(pivot > 0)) return 0;
        double scale = 1 / sqrt(pivot);
        for (long j = i; j < n; j++) matrix[i * wide + j] *= scale;
        for (long k = i + 1; k < n; k++) add_float64(matrix + k * wide + k, -matrix[i * wide + k], matrix + i * wide + k, n - k);
    }
    for (long i = 0; i < n; i++) direction[i] = -here->gradient[i];
    for (long i = 0; i < n; i++) {
        direction[i] /= matrix[i * wide + i];
        add_float64(direction + i + 1, -direction[i], matrix + i * wide + i + 1, n - i - 1);
    }
    for (long i = n - 1; i >= 0; i--)
        direction[i] = (direction[i] - dot_float64(matrix + i * wide + i + 1, direction + i + 1, n - i - 1)) / matrix[i * wide + i];
    return 1;
}

/* How far to go along a step: `problem.minimize._length`, with the same tests. */
INLINE double length_of(const Problem *p, const Point *here, const double *direction, double *moves, double smoothness,
                        long most_tries, double flat)
{
    double squares = 0, constant = 0, tiny = 2.2250738585072014e-308;
    for (long r = 0; r < p->records; r++) {
        moves[r] = dot_float64(p->features + r * p->columns, direction, p->columns);
        squares += p->share * moves[r] * moves[r];
    }
    for (long j = 0; j < p->columns; j++) constant += (p->curvature * here->contrast[j] - p->pull[j]) * direction[j];
    double square = dot_float64(direction, direction, p->columns), least = p->curvature * square;
    double descent = -dot_float64(here->gradient, direction, p->columns), most = least + smoothness * squares;
    double noise = here->rounding * sqrt(square);
    double low = descent / (most > tiny ? most : tiny), high = descent / (least > tiny ? least : tiny);
    double low_slope = -descent, high_slope = descent, length = 1;
    for (long tried = 0;;) {
        double slope = constant + length * least;
        for (long r = 0; r < p->records; r++) {
            int unclipped;
            slope += p->share * slope_of(p, r, here->scores[r] + length * moves[r], &unclipped) * moves[r];
        }
        int before = slope <= 0;
        double total = descent + slope;
        if (before ? -slope <= flat * descent : 4 * most * slope * length <= total * total) return length;
        if (fabs(slope) <= noise) return length;
        if (before) low = length, low_slope = slope;
        else high = length, high_slope = slope;
        if (++tried >= most_tries) return low;
        double rise = high_slope - low_slope;
        length = tried % 2 == 1 ? low - (high - low) * low_slope / (rise > tiny ? rise : tiny) : sqrt(low * high);
    }
}

/* Contrasts of stacked clients, from where they stand to where their gradient vanishes; `done` where one has arrived. */
CLONES void newton(long clients, long records, long columns, const double *features, long apart, const double *labels,
                   const double *lengths, const double *shares, const double *curvatures, const double *pulls,
                   const double *goals, double clip_norm, double smoothness, double exhausted, double flat,
                   long most_steps, long most_tries, double *contrasts, unsigned char *done, double *scratch)
{
    long wide = (columns + 15) / 16 * 16;
    double *scaled = scratch, *matrix = scaled + records * wide, *direction = matrix + (columns + TILE) * wide;
    double *gradient = direction + wide, *scores = gradient + wide, *bends = scores + records, *moves = bends + records;
    for (long k = 0; k < clients; k++) {
        Problem p = {records, columns, features + k * apart, labels + k * records, lengths + k * records,
                     pulls + k * columns, shares[k], curvatures[k], clip_norm, goals[k], 0};
        Point here = {contrasts + k * columns, scores, bends, gradient, 0, 0};
        p.pulled = sqrt(dot_float64(p.pull, p.pull, columns));
        look(&p, &here);
        done[k] = here.slope <= p.goal;
        for (long step = 0; step < most_steps && !done[k]; step++) {
            double before = here.slope;
            if (!direction_of(&p, &here, scaled, matrix, direction)) break;
            double length = length_of(&p, &here, direction, moves, smoothness, most_tries, flat);
            add_float64(here.contrast, length, direction, columns);
            look(&p, &here);
            done[k] = here.slope <= p.goal || (here.slope <= exhausted * here.rounding && here.slope > 0.5 * before);
        }
    }
}
