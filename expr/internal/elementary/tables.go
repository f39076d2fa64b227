package elementary

// Pieces is a function of a nonnegative float32 a, approximated by a polynomial in each of 16 or 32 intervals of a.
// scripts/tables.py fits the polynomials. The polynomial of an interval is c0 + c1*(a-b) + c2*(a-b)^2 + ... for a point
// b of the interval. To find the interval of a, the bits of the float32 number Scale*a + Offset are shifted right by
// Shift. The lowest 4 or 5 bits of the result are the index of the interval.
//
// With AVX2, a lookup in 16 intervals takes half the time of a lookup in 32 intervals. With 32 intervals, polynomials
// of smaller degree suffice.
type Pieces struct {
	Scale, Offset float64
	Shift         uint64
	First         uint64 // Tables[First] has the point b of each interval; the next Degree+1 tables have c0, c1, ...
	Degree        uint64
}
