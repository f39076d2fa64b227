package elementary

// Pieces is a function of nonnegative float32 numbers: a polynomial for each of 16 or 32 intervals, fitted by
// scripts/tables.py. The interval of a is in the lowest bits of Scale*a + Offset, shifted right by Shift. AVX2 looks up
// 16 entries in half the time of 32; with AVX-512 32 intervals need shorter polynomials.
type Pieces struct {
	// index in Tables: a point of each interval, then the coefficients in the distance from that point
	First         uint64
	Degree        uint64
	Scale, Offset float64
	Shift         uint64
}
