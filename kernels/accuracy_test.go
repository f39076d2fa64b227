//go:build linux || darwin

package kernels_test

import (
	"fmt"
	"iter"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// floatFormat describes the numbers of a dtype: its bits, and the exponents of its least and greatest powers of 2.
type floatFormat struct {
	dtype                 tensor.DType
	bits, least, greatest int
}

var floatFormats = []floatFormat{{tensor.Float32, 24, -149, 127}, {tensor.Float64, 53, -1074, 1023},
	{tensor.Float16, 11, -24, 15}, {tensor.BFloat16, 8, -133, 127}}

// has reports whether x is a number of the format.
func (f floatFormat) has(x float64) bool {
	_, e := math.Frexp(x)
	scaled := math.Ldexp(x, min(f.bits-e, -f.least))
	return x != x || math.IsInf(x, 0) || math.Trunc(scaled) == scaled && e <= f.greatest+1
}

// ulps returns the error of got in units in the last place of the true value: the number `want` plus rest/256 ulps of
// float64. Infinity counts as the number after the greatest one. The error of a NaN is infinite, and that of a result
// of the other sign, including the signs of zeros.
func (f floatFormat) ulps(got, want, rest float64) float64 {
	switch {
	case got != got || want != want:
		if got != got && want != want {
			return 0
		}
		return math.Inf(1)
	case math.Signbit(got) != math.Signbit(want):
		return math.Inf(1)
	}
	scale := 0
	if max(math.Abs(got), math.Abs(want)) > 0x1p1000 {
		scale = -8 // the number after the greatest float64 is infinite
	}
	limit := math.Ldexp(1, f.greatest+1+scale)
	scaledGot, scaledWant := min(math.Ldexp(math.Abs(got), scale), limit), min(math.Ldexp(math.Abs(want), scale), limit)
	_, e := math.Frexp(min(scaledWant, math.Nextafter(limit, 0)))
	distance := math.Ldexp(scaledGot-scaledWant, -max(e-f.bits, f.least+scale))
	if f.dtype == tensor.Float64 {
		distance -= math.Copysign(rest/256, rest*want)
	}
	return math.Abs(distance)
}

// bounds are the permitted errors of a case in ulps of float32 and float64. float16 and bfloat16 are computed in
// float32, so that their bound is the rounding, half an ulp, and the error of float32. An error that is not above
// slack is also permitted, whatever the signs.
type bounds struct {
	float32, float64 float64
	slack            slack
}

func (b bounds) of(f floatFormat) float64 {
	switch f.dtype {
	case tensor.Float64:
		return b.float64
	case tensor.Float32:
		return b.float32
	}
	return 0.5 + math.Ldexp(b.float32, f.bits-24)
}

// slack returns a permitted error of the computation in a format, for operands of at most the given magnitude. It is
// the error of a formula of PyTorch's that cancels or underflows.
type slack func(f floatFormat, operand float64) float64

// roundings is the error of terms of the operand's magnitude that cancel: count halves of an ulp.
func roundings(count float64) slack {
	return func(f floatFormat, operand float64) float64 { return count * math.Ldexp(operand, -f.bits) }
}

// ones is the error of terms of magnitude 1 that cancel: count halves of an ulp of 1.
func ones(count float64) slack {
	return func(f floatFormat, operand float64) float64 { return count * math.Ldexp(1, -f.bits) }
}

// overflows is the error of quotients by a number that may overflow: they are 0 below the reciprocal of the greatest.
func overflows(f floatFormat, operand float64) float64 {
	return math.Ldexp(max(1, operand), -f.greatest-1)
}

// sixfold is the error of a product by 6, which may overflow before the division by 6.
func sixfold(f floatFormat, operand float64) float64 {
	if operand > math.Ldexp(1./8, f.greatest+1) {
		return math.Inf(1)
	}
	return 0
}

// onesOfFloat64 is the error of terms of magnitude 1 that cancel and are computed in float64.
func onesOfFloat64(count float64) slack {
	return func(_ floatFormat, operand float64) float64 { return count * 0x1p-53 }
}

// subnormals is the error of a product of the operand and a subnormal number.
func subnormals(f floatFormat, operand float64) float64 { return math.Ldexp(max(1, operand), f.least) }

// accuracyAttrs has the attributes of the cases that have some. A case of the op pointwise has its formula in its
// name.
var accuracyAttrs = map[string]graph.Attrs{
	"softplus beta": {"beta": 2, "threshold": 5}, "gelu tanh": {"approximate": "tanh"}, "celu half": {"alpha": 0.5},
	"elu scaled": {"alpha": 2, "scale": 0.5, "input_scale": 1.5}, "logit eps": {"eps": 0.1},
}

// withAndWithoutCode yields twice: while loops run by machine code, if there is any, and while they run without it.
func withAndWithoutCode() iter.Seq[bool] {
	return func(yield func(bool) bool) {
		available := loops.CodeAvailable
		defer func() { loops.CodeAvailable = available }()
		if yield(available()) {
			loops.CodeAvailable = func() bool { return false }
			yield(false)
		}
	}
}

// TestAccuracy compares pointwise functions with the vectors that scripts/accuracy.py has made with mpmath: operands
// of all magnitudes, and true values. Zeros, infinities and NaN are PyTorch's. Loops run by machine code and without
// it.
func TestAccuracy(t *testing.T) {
	vectors, err := npz.ReadFile("testdata/accuracy.npz")
	if err != nil {
		t.Fatal(err)
	}
	for isCode := range withAndWithoutCode() {
		for name, allowed := range accuracy {
			if vectors[name+"/x"] == nil {
				t.Errorf("testdata/accuracy.npz has no case %s", name)
				continue
			}
			for _, f := range floatFormats {
				if err := checkAccuracy(vectors, name, f, allowed); err != nil {
					t.Errorf("%s of %v, machine code %v: %v", name, f.dtype, isCode, err)
				}
			}
		}
	}
	for array := range vectors {
		name, isOperand := strings.CutSuffix(array, "/x")
		if isOperand && !strings.HasPrefix(name, "complex ") && accuracy[name].float64 == 0 {
			t.Errorf("the case %s has no bounds", name)
		}
	}
}

// checkAccuracy compares the results of a case in a dtype with the true values.
func checkAccuracy(vectors map[string]*tensor.Tensor, name string, f floatFormat, allowed bounds) error {
	operands, want, rest := vectors[name+"/x"], vectors[name+"/true"], vectors[name+"/rest"]
	var points []int // those whose operands are numbers of the dtype
	for i := range want.Numel() {
		isPoint := true
		for k := range operands.Shape[0] {
			isPoint = isPoint && f.has(operands.At(k, i).Float())
		}
		if isPoint {
			points = append(points, i)
		}
	}
	if len(points) < 60 {
		return fmt.Errorf("only %d operands", len(points))
	}
	meta := tensor.New(f.dtype, len(points))
	var in []*tensor.Tensor
	var metas []tensor.Meta
	for k := range operands.Shape[0] {
		operand := tensor.Empty(meta)
		for j, i := range points {
			operand.Set(operands.At(k, i), j)
		}
		in, metas = append(in, operand), append(metas, meta)
	}
	opName, detail, _ := strings.Cut(name, " ")
	attrs := accuracyAttrs[name]
	if opName == "pointwise" {
		attrs = graph.Attrs{"expr": detail}
	}
	op := kernels.Lookup(opName)
	call, err := kerneltest.CallOf(op, attrs, metas)
	if err != nil {
		return err
	}
	got, err := kerneltest.RunCall(op, call, in)
	if err != nil {
		return err
	}
	computed := floatFormats[0] // that of float32, for 16-bit floats
	if f.dtype == tensor.Float64 {
		computed = f
	}
	worst, at, bound := 0.0, 0, allowed.of(f)
	for j, i := range points {
		result, wanted := got[0].At(j).Float(), want.At(i).Float()
		e := f.ulps(result, wanted, rest.At(i).Float())
		if !(e <= bound) && allowed.slack != nil {
			operand := 0.0
			for _, x := range in {
				operand = max(operand, math.Abs(x.At(j).Float()))
			}
			rounding := math.Ldexp(math.Abs(wanted), -f.bits) + math.Ldexp(1, f.least-1)
			if distance := math.Abs(result - wanted); distance <= allowed.slack(computed, operand)+rounding {
				continue
			}
		}
		if e > worst {
			worst, at = e, j
		}
	}
	if worst <= bound {
		return nil
	}
	text := fmt.Sprintf("%.4g ulps, the bound is %.4g: of", worst, bound)
	for k := range in {
		text += fmt.Sprint(" ", operands.At(k, points[at]))
	}
	return fmt.Errorf("%s the result is %v, the true value %v", text, got[0].At(at), want.At(points[at]))
}

// complexAccuracy has the bounds of operations on complex numbers, for complex64 and complex128: of the distance of a
// result from the true value, in ulps of the true value's magnitude.
var complexAccuracy = map[string][2]float64{
	"abs": {0.5, 2}, "acos": {0.6, 1.5}, "acosh": {0.7, 1.5}, "angle": {1.2, 1}, "asin": {0.7, 1.5}, "asinh": {0.7, 1.5},
	"atan": {0.6, 1.5}, "atanh": {0.6, 1.5}, "cos": {0.6, 1.5}, "cosh": {0.6, 2}, "div": {0.6, 1.5}, "exp": {1.5, 1.5},
	"log": {0.7, 1.5}, "log10": {1.5, 2.5}, "log2": {1.5, 2}, "mul": {0.6, 1.5}, "reciprocal": {0.7, 1.5},
	"rsqrt": {1.5, 2.5}, "sgn": {1, 2.5}, "sigmoid": {2, 3.5}, "silu": {4, 2.5}, "sin": {0.6, 2}, "sinh": {0.7, 1.5},
	"sqrt": {0.7, 1.5}, "square": {0.6, 1.5}, "tan": {0.6, 2.5}, "tanh": {0.6, 2.5},
	"pow":  {0.6, 30},     // exp(y * log(x)): the error of the exponent, also in PyTorch
	"sinc": {6e3, 3.1e12}, // pi * z is rounded, also in PyTorch
}

// TestComplexAccuracy is TestAccuracy for complex numbers. Their operands have parts that are not 0.
func TestComplexAccuracy(t *testing.T) {
	vectors, err := npz.ReadFile("testdata/accuracy.npz")
	if err != nil {
		t.Fatal(err)
	}
	for isCode := range withAndWithoutCode() {
		for name := range vectors {
			name, isOperand := strings.CutSuffix(name, "/x")
			opName, isComplex := strings.CutPrefix(name, "complex ")
			if !isOperand || !isComplex {
				continue
			}
			for i, f := range floatFormats[:2] {
				dtype := []tensor.DType{tensor.Complex64, tensor.Complex128}[i]
				if err := checkComplexAccuracy(vectors, opName, dtype, f, complexAccuracy[opName][i]); err != nil {
					t.Errorf("%s of %v, machine code %v: %v", opName, dtype, isCode, err)
				}
			}
		}
	}
}

// checkComplexAccuracy compares the results of an op of complex numbers with the true values.
func checkComplexAccuracy(vectors map[string]*tensor.Tensor, name string, dtype tensor.DType, f floatFormat,
	bound float64) error {
	operands, want := vectors["complex "+name+"/x"], vectors["complex "+name+"/true"]
	var in []*tensor.Tensor
	var metas []tensor.Meta
	for k := range operands.Shape[0] {
		part := tensor.Must(operands.View(tensor.Meta{DType: operands.DType, Shape: want.Shape, Strides: []int{1},
			Offset: k * want.Numel()}))
		in = append(in, part.CopyTo(tensor.New(dtype, want.Numel())))
		metas = append(metas, in[k].Meta)
	}
	op := kernels.Lookup(name)
	call, err := kerneltest.CallOf(op, nil, metas)
	if err != nil {
		return err
	}
	got, err := kerneltest.RunCall(op, call, in)
	if err != nil {
		return err
	}
	worst, at := 0.0, 0
	for i := range want.Numel() {
		result, wanted := got[0].At(i).Complex(), want.At(i).Complex()
		magnitude := cmplx.Abs(wanted)
		if !(magnitude < math.Ldexp(1, f.greatest-1)) || magnitude < math.Ldexp(1, f.least/2) {
			continue
		}
		_, e := math.Frexp(magnitude)
		if ulps := math.Ldexp(cmplx.Abs(result-wanted), f.bits-e); ulps > worst || ulps != ulps {
			worst, at = ulps, i
		}
	}
	if worst <= bound {
		return nil
	}
	return fmt.Errorf("%.4g ulps, the bound is %.4g: of %v the result is %v, the true value %v", worst, bound,
		in[0].At(at), got[0].At(at), want.At(at))
}

// TestExactness compares the pointwise ops whose results are rounded once, or in the steps of PyTorch, with their
// references, which compute the same steps in float64: all bits must agree, also of zeros. The operands are of all
// magnitudes. Every pointwise op is in this list or in that of TestAccuracy.
func TestExactness(t *testing.T) {
	isListed := map[string]bool{}
	for name := range accuracy {
		opName, _, _ := strings.Cut(name, " ")
		isListed[opName] = true
	}
	for isCode := range withAndWithoutCode() {
		for _, op := range kernels.All() {
			if op.Kind != graph.FollowsOperands {
				continue
			}
			if !slices.Contains(exactOps, op.Name) {
				if !isListed[op.Name] {
					t.Errorf("%s has no bound: see scripts/accuracy.py", op.Name)
				}
				continue
			}
			for _, example := range op.Examples {
				for _, f := range floatFormats {
					if err := checkExactness(op, example, f.dtype); err != nil {
						t.Errorf("%s %v of %v, machine code %v: %v", op.Name, example.Attrs, f.dtype, isCode, err)
					}
				}
			}
		}
	}
}

// checkExactness compares an example of an op on special numbers of a dtype with the reference.
func checkExactness(op *graph.Op, example graph.Example, dtype tensor.DType) error {
	rng := rand.New(rand.NewPCG(11, 5))
	metas := withDTypes(example.In, dtype)[0]
	in := make([]*tensor.Tensor, len(metas))
	for k, meta := range metas {
		if meta.DType == tensor.Invalid {
			continue
		}
		if meta.Rank() > 0 {
			metas[k] = tensor.New(meta.DType, 4*specials)
		}
		in[k] = tensor.Must(tensor.FromStorage(metas[k],
			tensor.StorageOf(jittest.RandomElements(rng, meta.DType, metas[k].Numel()))))
	}
	call, err := kerneltest.CallOf(op, example.Attrs, metas)
	if err != nil {
		return err
	}
	if _, err := kerneltest.Infer(op, call); err != nil {
		return nil // the dtype is not supported
	}
	got, err := kerneltest.RunCall(op, call, in)
	if err != nil {
		return err
	}
	want, err := op.Ref(call, in)
	if err != nil {
		return err
	}
	for i := range got[0].Numel() {
		g, w := got[0].At(i), want[0].At(i)
		if !got[0].DType.IsFloat() && g.Int() == w.Int() || g.Float() != g.Float() && w.Float() != w.Float() ||
			g.Float() == w.Float() && math.Signbit(g.Float()) == math.Signbit(w.Float()) {
			continue
		}
		text := "of"
		for _, operand := range in {
			if operand != nil {
				text += fmt.Sprint(" ", element(operand, i).At())
			}
		}
		return fmt.Errorf("%s the result is %v, want %v", text, g, w)
	}
	return nil
}

// exactOps are the ops of TestExactness.
var exactOps = strings.Fields(`abs add addcdiv addcmul angle bitwise_and bitwise_left_shift bitwise_not bitwise_or
	bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min copysign div eq floor floor_divide fmax fmin fmod frac
	gcd ge gt hardshrink hardtanh heaviside isfinite isinf isnan isneginf isposinf lcm le leaky_relu lerp logical_and
	logical_not logical_or logical_xor lt masked_fill maximum minimum mul nan_to_num ne neg nextafter reciprocal relu relu6
	remainder round rsub sgn shrink sign signbit softshrink sqrt square sub threshold trunc where`)

// accuracy has the bounds of the cases of TestAccuracy, and what cancels or overflows: in PyTorch too, unless it says
// otherwise.
var accuracy = map[string]bounds{
	"acos":                                   {2, 2, nil},
	"acosh":                                  {2, 2, nil},
	"asin":                                   {2, 2, nil},
	"asinh":                                  {2, 2, nil},
	"atan":                                   {2, 2, nil},
	"atan2":                                  {2, 2, nil},
	"atanh":                                  {2, 2, nil},
	"celu":                                   {2, 2, nil},
	"celu half":                              {2, 2, nil},
	"cos":                                    {2, 2, nil},
	"cosh":                                   {2, 2, nil},
	"digamma":                                {1, 4, roundings(16)}, // the recurrence near zeros
	"div":                                    {2, 2, nil},
	"elu":                                    {2, 2, nil},
	"elu scaled":                             {2, 2, nil},
	"erf":                                    {2, 2, nil},
	"erfc":                                   {2, 2, nil},
	"erfinv":                                 {1, 3, nil},
	"exp":                                    {2, 2, nil},
	"exp2":                                   {2, 2, nil},
	"expm1":                                  {2, 2, nil},
	"gelu":                                   {3, 3, roundings(2)}, // 1 + erf(x)
	"gelu tanh":                              {3, 3, roundings(2)}, // 1 + tanh(x)
	"hardsigmoid":                            {2, 2, nil},
	"hardswish":                              {2, 2, sixfold},
	"hypot":                                  {2, 2, nil},
	"i0":                                     {1, 4, nil},           // Cephes' series, as in PyTorch
	"lgamma":                                 {1, 3, roundings(16)}, // near zeros of negative numbers
	"log":                                    {2, 2, nil},
	"log10":                                  {2, 2, nil},
	"log1p":                                  {2, 2, nil},
	"log2":                                   {2, 2, nil},
	"log_sigmoid":                            {2, 2, subnormals},   // 0 - 0 is 0, not -0
	"logaddexp":                              {2, 2, roundings(4)}, // the maximum and the logarithm
	"logaddexp2":                             {2, 2, roundings(4)}, // the maximum and the logarithm
	"logit":                                  {3, 3, roundings(4)}, // x / (1 - x) near 1/2
	"logit eps":                              {3, 3, roundings(4)}, // x / (1 - x) near 1/2
	"mish":                                   {3, 3, subnormals},
	"pointwise deg2rad(x)":                   {2, 2, nil},
	"pointwise hypot(x, y)":                  {2, 2, nil},
	"pointwise rad2deg(x)":                   {2, 2, nil},
	"pointwise softsign(x)":                  {2, 2, nil},
	"pointwise tanhshrink(x)":                {2, 2, roundings(2)}, // x - tanh(x)
	"pow":                                    {2, 2, nil},
	"reciprocal":                             {2, 2, nil},
	"rsqrt":                                  {2, 2, nil},
	"selu":                                   {2, 3, nil},
	"sigmoid":                                {2.5, 2.5, overflows}, // exp(-x)
	"silu":                                   {2.5, 2.5, overflows}, // exp(-x)
	"sin":                                    {2, 2, nil},
	"sinc":                                   {1, 3, onesOfFloat64(4)}, // pi * x is rounded
	"sinh":                                   {2, 2, nil},
	"softplus":                               {2, 2, nil},
	"softplus beta":                          {2, 2, nil},
	"special_chebyshev_polynomial_t":         {1, 1000, onesOfFloat64(1000)}, // k * acos(x) is rounded
	"special_chebyshev_polynomial_u":         {1, 1000, onesOfFloat64(1000)}, // k * acos(x) is rounded
	"special_chebyshev_polynomial_v":         {1, 1000, onesOfFloat64(1000)}, // k * acos(x) is rounded
	"special_chebyshev_polynomial_w":         {1, 1000, onesOfFloat64(1000)}, // k * acos(x) is rounded
	"special_entr":                           {2, 2, nil},
	"special_erfcx":                          {1, 3, nil},
	"special_i0e":                            {1, 5, nil},  // Cephes' series, as in PyTorch
	"special_i1":                             {1, 14, nil}, // Cephes' series, as in PyTorch
	"special_i1e":                            {1, 11, nil}, // Cephes' series, as in PyTorch
	"special_log_ndtr":                       {1, 3, nil},
	"special_modified_bessel_k0":             {1, 15, nil}, // Cephes' series, as in PyTorch
	"special_modified_bessel_k1":             {1, 4, nil},  // Cephes' series, as in PyTorch
	"special_ndtr":                           {1, 3, nil},
	"special_ndtri":                          {1, 4, nil},
	"special_scaled_modified_bessel_k0":      {1, 15, nil},                   // Cephes' series, as in PyTorch
	"special_scaled_modified_bessel_k1":      {1, 4, nil},                    // Cephes' series, as in PyTorch
	"special_shifted_chebyshev_polynomial_t": {1, 4000, onesOfFloat64(1000)}, // 2x - 1 is rounded too
	"special_shifted_chebyshev_polynomial_u": {1, 4000, onesOfFloat64(1000)}, // 2x - 1 is rounded too
	"special_shifted_chebyshev_polynomial_v": {1, 4000, onesOfFloat64(1000)}, // 2x - 1 is rounded too
	"special_shifted_chebyshev_polynomial_w": {1, 4000, onesOfFloat64(1000)}, // 2x - 1 is rounded too
	"special_spherical_bessel_j0":            {2, 2, nil},
	"special_xlog1py":                        {2, 2, nil},
	"sqrt":                                   {2, 2, nil},
	"square":                                 {2, 2, nil},
	"tan":                                    {2, 2, nil},
	"tanh":                                   {2, 2, nil},
	"xlogy":                                  {2, 2, nil},
}
