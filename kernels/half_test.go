package kernels_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/halftest"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// notInHalf lists the composite ops that TestHalf does not compare, with the reason.
var notInHalf = map[string]string{
	"conv_integer": hasNoFloats, "matmul_integer": hasNoFloats, "logspace": hasNoFloats,
	"fft_fft2": isComplex, "fft_fftn": isComplex, "fft_hfft2": isComplex, "fft_hfftn": isComplex, "fft_ifft2": isComplex,
	"fft_ifftn": isComplex, "fft_irfft2": isComplex, "fft_irfftn": isComplex, "istft": isComplex, "polar": isComplex,
	"fft_ihfft2": rejects, "fft_ihfftn": rejects, "fft_rfft2": rejects, "fft_rfftn": rejects, "stft": rejects,
	"dynamic_quantize_linear": rejects, "linalg_cond": rejects, "linalg_matrix_rank": rejects, "linalg_pinv": rejects,
	"linalg_tensorinv": rejects, "linalg_tensorsolve": rejects, "linalg_vander": rejects, "multi_margin_loss": rejects,
	"multilabel_margin_loss": rejects, "nanquantile": rejects, "pinverse": rejects, "quantile": rejects,
	"rand_like": "its random numbers differ by dtype",
}

// Reasons of notInHalf.
const (
	hasNoFloats = "its operands are not floats"
	isComplex   = "complex numbers have no 16-bit parts"
	rejects     = "it rejects 16-bit floats, as PyTorch does"
)

// halfAttrs has attributes whose defaults depend on the dtype.
var halfAttrs = map[string]graph.Attrs{"rms_norm": {"eps": 1e-3}}

// stepsInHalf returns the ops that PyTorch defines in steps of which each rounds: docs/accuracy.md lists the sources.
func stepsInHalf(t *testing.T) map[string]bool {
	t.Helper()
	document, err := os.ReadFile("../docs/accuracy.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(document), "| ops that round between steps | defined in |\n|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	ops := map[string]bool{}
	for line := range strings.Lines(table) {
		for name := range strings.SplitSeq(strings.Trim(strings.Split(line, "|")[1], " "), ", ") {
			require.NotNil(t, kernels.Lookup(name), name)
			ops[name] = true
		}
	}
	return ops
}

// halfDraw is an example of an op with drawn operands.
type halfDraw struct {
	op      *graph.Op
	example graph.Example
	format  halftest.Format
	seed    uint64
}

// run runs the example with a dtype in place of float32, by a kernel, or by the reference if isRef is set.
func (d halfDraw) run(dtype tensor.DType, isRef bool) (out []*tensor.Tensor, isRejected bool, err error) {
	metas, attrs := slices.Clone(d.example.In), graph.Attrs{}
	maps.Copy(attrs, halfAttrs[d.op.Name])
	maps.Copy(attrs, d.example.Attrs)
	rng := rand.New(rand.NewPCG(d.seed, 1))
	in := make([]*tensor.Tensor, len(metas))
	hasFloat := false
	for i, meta := range metas {
		if meta.DType == tensor.Invalid {
			continue
		}
		draw := kerneltest.IndexValues(rng)
		scale, offset := 1.0, 0.0
		switch kind := rng.IntN(6); kind {
		case 0: // the largest is near the limit
			scale = d.format.Large / 2
		case 1: // squares exceed float16
			scale = 150
		case 2: // subnormal numbers
			scale = d.format.Tiny()
		case 3: // sums cancel
			offset = 64
		}
		isFloat := meta.DType == tensor.Float32 || meta.DType == tensor.Float64
		if isFloat {
			metas[i].DType, hasFloat = dtype, true
		}
		sign := 1.0
		in[i] = kerneltest.Filled(metas[i], func(tensor.DType) tensor.Scalar {
			x := draw(meta.DType)
			if !isFloat {
				return x
			}
			sign = -sign
			return d.format.Round(x.Float()*scale + sign*offset)
		})
	}
	if !hasFloat {
		return nil, true, fmt.Errorf("no floats")
	}
	call, err := kerneltest.CallOf(d.op, attrs, metas)
	if err == nil {
		_, err = kerneltest.Infer(d.op, call)
	}
	if err != nil {
		return nil, true, err
	}
	if isRef && d.op.Ref != nil {
		out, err = d.op.Ref(call, in)
	} else {
		out, err = kerneltest.RunCall(d.op, call, in)
	}
	return out, false, err
}

// check compares the op in 16 bits with its reference in float64, or in float32 if it has no float64.
func (d halfDraw) check() (isRejected bool, err error) {
	got, isRejected, err := d.run(d.format.DType, false)
	if isRejected {
		return true, err
	}
	single, isRejected, singleErr := d.run(tensor.Float32, false)
	if singleErr != nil {
		return isRejected, nil // these operands are invalid
	}
	if err != nil {
		return false, err
	}
	double, _, doubleErr := d.run(tensor.Float64, true)
	if doubleErr != nil {
		double = single
	}
	for i := range got {
		if got[i].DType.IsComplex() || !slices.Equal(got[i].Shape, double[i].Shape) {
			continue
		}
		if err := d.format.Compare(got[i], single[i], double[i], 1); err != nil {
			return false, fmt.Errorf("result %d: %w", i, err)
		}
	}
	return false, nil
}

// TestHalf runs ops on 16-bit floats.
func TestHalf(t *testing.T) {
	draws, steps := testsize.Of(6, 60), stepsInHalf(t)
	accepted, count := map[string]bool{}, 0
	for _, op := range kernels.All() {
		if notInHalf[op.Name] != "" || steps[op.Name] {
			continue
		}
		rejection, failures := "it has no example", 0
		for k, example := range op.Examples {
			for i := range draws {
				d := halfDraw{op, example, halftest.Formats[i%2], uint64(i / 2)}
				isRejected, err := d.check()
				switch {
				case isRejected && err != nil:
					rejection = err.Error()
				case err != nil:
					if failures++; failures < 3 {
						t.Errorf("%s, example %d, draw %d, %s: %v", op.Name, k, i, d.format.DType, err)
					}
				case !isRejected:
					accepted[op.Name] = true
					count++
				}
			}
		}
		if op.Decompose != nil && !accepted[op.Name] && failures == 0 {
			t.Errorf("%s is not compared: %s", op.Name, rejection)
		}
	}
	t.Logf("%d calls of %d ops", count, len(accepted))
}
