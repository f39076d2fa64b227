package experiment

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// tolerances has, by dtype, the tolerated difference of two elements, divided by a scale. Exact programs
// (graphrun.Options.Exact) differ only in the order of summation. For them, the scale of an element is 1 + |element|.
// Other programs may use other formulas, such as Winograd convolutions, with errors proportional to the largest value
// of a tensor. The scale is then 1 plus the largest finite magnitude in the tensor.
var tolerances = map[tensor.DType]float64{
	tensor.Float16: 2e-3, tensor.BFloat16: 2e-2, tensor.Float32: 2e-5, tensor.Float64: 1e-11,
	tensor.Complex64: 5e-5, tensor.Complex128: 1e-10,
}

// outputDifferences describes the outputs that differ between the last runs of two contenders. The list is empty if one
// of the contenders has not run.
func outputDifferences(base, contender *contender) []string {
	if base.out == nil || contender.out == nil {
		return nil
	}
	var list []string
	for _, name := range sorted.Keys(base.out) {
		text := "the output is missing in one of them"
		if contender.out[name] != nil {
			text = difference(base.out[name], contender.out[name], base.exact && contender.exact)
		}
		if text != "" {
			list = append(list, fmt.Sprintf("output %q under %s and %s: %s", name, base.name, contender.name, text))
		}
	}
	return list
}

// difference describes how the elements of two results differ. It returns "" if the elements agree within the tolerance
// of their dtype. exact chooses the scale of the tolerance: see tolerances. Layouts may differ, and NaN equals NaN.
func difference(a, b *tensor.Tensor, exact bool) string {
	if a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) {
		return fmt.Sprintf("%v%s and %v%s", a.DType, tensor.ListString(a.Shape), b.DType, tensor.ListString(b.Shape))
	}
	if a.Numel() == 0 {
		return ""
	}
	bound, inexact := tolerances[a.DType]
	if !inexact {
		return exactDifference(a, b)
	}
	elementsA, elementsB := asComplex(a), asComplex(b)
	scale, worst := 0.0, 0.0 // scale remains 0 if exact is true: each element then has its own scale
	for _, v := range elementsB {
		if magnitude := cmplx.Abs(v); !exact && magnitude <= math.MaxFloat64 { // infinite values do not count
			scale = max(scale, magnitude)
		}
	}
	for i := range elementsA {
		if elementsA[i] == elementsB[i] || cmplx.IsNaN(elementsA[i]) && cmplx.IsNaN(elementsB[i]) {
			continue
		}
		relative := cmplx.Abs(elementsA[i]-elementsB[i]) / (1 + max(scale, cmplx.Abs(elementsB[i])))
		if math.IsNaN(relative) { // an element is NaN or infinite
			relative = math.Inf(1)
		}
		worst = max(worst, relative)
	}
	if worst <= bound {
		return ""
	}
	reference := " to the largest value"
	if exact {
		reference = ""
	}
	return fmt.Sprintf("the relative difference%s is %.3g, but only %.3g is tolerated", reference, worst, bound)
}

// asComplex returns the elements in logical order as complex numbers.
func asComplex(t *tensor.Tensor) []complex128 {
	c := t.CopyTo(tensor.New(tensor.Complex128, t.Shape...))
	return unsafe.Slice((*complex128)(c.Pointer()), c.Numel())
}

// exactDifference describes how many elements of two results differ in their bits. It returns "" if no element differs.
func exactDifference(a, b *tensor.Tensor) string {
	bytesA, bytesB := a.CopyTo(tensor.New(a.DType, a.Shape...)).Storage().Bytes(),
		b.CopyTo(tensor.New(b.DType, b.Shape...)).Storage().Bytes()
	count := 0
	for size := a.DType.Size(); len(bytesA) > 0; bytesA, bytesB = bytesA[size:], bytesB[size:] {
		if !slices.Equal(bytesA[:size], bytesB[:size]) {
			count++
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d elements differ", count, a.Numel())
}
