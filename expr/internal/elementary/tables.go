package elementary

// Pieces is a function of nonnegative float32 numbers: a polynomial for each of 16 or 32 intervals, fitted by
// scripts/tables.py. The index of the interval of a number a is in the lowest bits of Scale*a + Offset, shifted right
// by Shift. Tables have 16 entries for AVX2, which looks them up in half the time of 32. With 32 intervals, for
// AVX-512, the polynomials are shorter.
type Pieces struct {
	// First is an index in Tables. The table First has a point of each interval. The next Degree+1 tables have the
	// coefficients of polynomials in the distance from that point.
	First         uint64
	Degree        uint64
	Scale, Offset float64
	Shift         uint64
}
