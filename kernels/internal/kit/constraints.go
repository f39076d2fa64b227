package kit

// Sortable is the type constraint of loops that compare elements. The loops test for NaN by v != v, which is
// false for every int64.
type Sortable interface{ int64 | float32 | float64 }
