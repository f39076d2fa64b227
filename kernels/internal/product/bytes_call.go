package product

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Indices of the operands of matmul_bytes. An optional operand may be omitted.
const (
	bytesA     = iota // input
	bytesB            // other
	bytesAZero        // input_zero_point, optional
	bytesBZero        // other_zero_point, optional
	bytesBias         // bias, optional
	bytesScale        // scale, optional
	bytesZero         // zero_point of the result, optional
)

// bytesResultType checks a call and returns the type of its row-major result.
func bytesResultType(call *graph.Call) (result tensor.Type, err error) {
	const name = "matmul_bytes"
	a, b := call.Type(bytesA), call.Type(bytesB)
	for _, operand := range []tensor.Type{a, b} {
		if !kit.IsByte(operand.DType) {
			return result, kit.NotImplemented(name, operand.DType)
		}
	}
	if result, err = matmulType(a.WithDType(tensor.Float32), b.WithDType(tensor.Float32)); err != nil {
		return result, err
	}
	rows, columns := sym.Of(1), sym.Of(1)
	if a.Rank() > 1 {
		rows = a.Shape[a.Rank()-2]
	}
	if b.Rank() > 1 {
		columns = b.Shape[b.Rank()-1]
	}
	result = tensor.NewType(tensor.Int32, result.Shape...)
	if call.HasOperand(bytesScale) != call.HasOperand(bytesZero) {
		return result, fmt.Errorf("%s: expected scale and zero_point together", name)
	}
	if call.HasOperand(bytesZero) {
		if result.DType = call.Type(bytesZero).DType; !kit.IsByte(result.DType) {
			return result, kit.NotImplemented(name, result.DType)
		}
	}
	for _, expected := range []struct {
		operand   int
		name      string
		dtype     tensor.DType
		count     sym.Int // number of elements
		allowsOne bool    // whether a single element is also allowed
	}{{bytesAZero, "input_zero_point", a.DType, rows, true}, {bytesBZero, "other_zero_point", b.DType, columns, true},
		{bytesBias, "bias", tensor.Int32, columns, false}, {bytesScale, "scale", tensor.Float32, columns, true},
		{bytesZero, "zero_point", result.DType, sym.Of(1), true}} {
		if !call.HasOperand(expected.operand) {
			continue
		}
		operand := call.Type(expected.operand)
		fits := operand.Numel().Eq(expected.count)
		if expected.allowsOne {
			fits = fits.Or(operand.Numel().Eq(sym.Of(1)))
		}
		if operand.DType != expected.dtype || operand.Rank() > 1 || !fits.Holds() {
			return result, fmt.Errorf("%s: expected %s to be %v with %v elements, but got %v %s", name, expected.name,
				expected.dtype, expected.count, operand.DType, tensor.Sizes(operand.Shape))
		}
	}
	return result, nil
}

// byteAt returns the element at an offset from the address of an operand of dtype int8 or uint8. It returns 0 if the
// address is nil, which stands for an omitted operand.
func byteAt(address unsafe.Pointer, dtype tensor.DType, offset int) int32 {
	switch {
	case address == nil:
		return 0
	case dtype == tensor.Int8:
		return int32(*(*int8)(unsafe.Add(address, offset)))
	}
	return int32(*(*uint8)(unsafe.Add(address, offset)))
}

// vectorStride returns the stride of an operand that is a vector with an element for each row or column. The stride is
// 0 if the operand is omitted or has a single element for all rows or columns.
func vectorStride(c *graph.Call, operand int) int {
	if meta := c.Meta(operand); c.HasOperand(operand) && meta.Numel() > 1 {
		return meta.Strides[0]
	}
	return 0
}

// operandAddress returns the address of an operand of a call, or nil if the call omits it.
func operandAddress(call *graph.Call, mem *graph.Mem, operand int) unsafe.Pointer {
	if !call.HasOperand(operand) {
		return nil
	}
	return mem.Ptrs[1+operand]
}
