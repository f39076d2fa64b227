package kit

import "github.com/graphrun/graphrun/tensor"

// IsByte reports whether a dtype is int8 or uint8.
func IsByte(dtype tensor.DType) bool { return dtype == tensor.Int8 || dtype == tensor.Uint8 }
