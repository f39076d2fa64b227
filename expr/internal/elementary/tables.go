package elementary

// Pieces is a piecewise polynomial of nonnegative float32 numbers with 16 or 32 intervals, fitted by scripts/tables.py.
// For a number a, the lowest bits of Scale*a + Offset, shifted right by Shift, are the index of the interval. Tables
// for AVX2 have 16 entries, because AVX2 looks up 16 entries in half the time of 32. Tables for AVX-512 have 32
// entries, and polynomials of smaller degree suffice.
type Pieces struct {
	// Tables[First] has a point of each interval. The next Degree+1 tables have the coefficients of polynomials in the
	// distance from that point.
	First         uint64
	Degree        uint64
	Scale, Offset float64
	Shift         uint64
}
