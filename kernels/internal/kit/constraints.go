package kit

// Sortable is what loops compare. v != v holds for a NaN only.
type Sortable interface{ int64 | float32 | float64 }
