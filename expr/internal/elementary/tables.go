package elementary

// Pieces is a function of numbers of float32 that are not negative, by a polynomial for each of 16 or 32 intervals:
// scripts/tables.py makes them. The lowest bits of scale*a + offset, shifted, say which interval a is in. With AVX2 16
// are looked up in half the time, with AVX-512 a shorter polynomial for each of 32 takes less.
type Pieces struct {
	First         uint64 // of the tables: a point of each interval, and the coefficients in what a is beyond it
	Degree        uint64
	Scale, Offset float64
	Shift         uint64
}
