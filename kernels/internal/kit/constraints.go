package kit

// Sortable is the type constraint of loops that compare elements. They test for NaN by v != v.
type Sortable interface{ int64 | float32 | float64 }
