package kit

// Sortable is the type constraint of loops that compare elements. v != v is true only for NaN.
type Sortable interface{ int64 | float32 | float64 }
