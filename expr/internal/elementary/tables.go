package elementary

// Pieces is a function of nonnegative float32 numbers: a polynomial for each of 16 or 32 intervals, fitted by
// scripts/tables.py. For a number a, the lowest bits of Scale*a + Offset, shifted right by Shift, are the index of the
// interval. Tables for AVX2 have 16 entries, because AVX2 looks up 16 entries in half the time of 32. Tables for
// AVX-512 have 32 entries, so that polynomials of smaller degree suffice.
type Pieces struct {
	// First is an index in Tables. The table First has a point of each interval. The next Degree+1 tables have the
	// coefficients of polynomials in the distance from that point.
	First         uint64
	Degree        uint64
	Scale, Offset float64
	Shift         uint64
}
