// Package devicetest has the tests that every driver runs: results of devices are compared with expr.Code.Eval and with
// the references of ops.
package devicetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// Expressions runs expressions on all devices and compares the results with expr.Code.Eval bit by bit. It
// skips the test if there are no devices. It does not test devices whose float32 sums and products are not
// correctly rounded.
func Expressions(t *testing.T, open func() ([]device.Device, error)) {
	t.Helper()
	step := testsize.Of(24, 1) // short tests run every 24th expression
	eachDevice(t, open, func(d device.Device) {
		info := d.Info()
		t.Logf("%s: %+v", info.Name, info.ExactOps)
		if !info.ExactOps.Exact32 {
			return
		}
		compare(t, d, "the constant 0", conform.Zeros())
		compare(t, d, "primitive operations", every(conform.Primitives(), step))
		compare(t, d, "functions", every(conform.Functions(tensor.Float32, tensor.Float64, tensor.Int32, tensor.BFloat16,
			tensor.Complex64), step))
		compare(t, d, "catalogue", every(conform.Catalogue(kernels.All(), tensor.DTypes()...), step*testsize.Of(4, 1)))
	})
}

// compare compares the results of expressions on a device with expr.Code.Eval. Each expression runs with all
// [conform.Walks] (iterations that differ in strides). In short tests it runs with one of them. compare logs the
// counts, with the given name.
func compare(t *testing.T, d device.Device, name string, codes []conform.Code) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	equalCount, unsupportedCount, differingCount, resultCount := 0, 0, 0, 0
	for codeIndex, code := range codes {
		for walkIndex := range testsize.Of(1, len(conform.Walks)) {
			walk := conform.Walks[(codeIndex+walkIndex)%len(conform.Walks)]
			iteration, err := conform.Iterate(code.Code, walk, conform.WalkShape(walk)...)
			if err != nil {
				t.Fatal(err)
			}
			diff, err := conform.Compare(code.Code, iteration, d.Info().ExactOps.Target, rng, device.RunOn(d))
			switch {
			case errors.Is(err, lower.ErrUnsupported):
				unsupportedCount++
			case err != nil:
				t.Fatalf("%s, %s: %v", code.Name, walk, err)
			case diff.Differing > 0:
				differingCount++
				t.Errorf("%s, %s: %d of %d results differ: %s", code.Name, walk, diff.Differing, diff.Results, diff.First)
			default:
				equalCount++
			}
			resultCount += diff.Results
		}
	}
	t.Logf("%s: %d kernels with %d results: %d equal, %d differ; %d not supported", name, equalCount+differingCount,
		resultCount, equalCount, differingCount, unsupportedCount)
	if equalCount == 0 {
		t.Error("nothing was compared")
	}
}

// every returns the expressions with the indices 0, step, 2*step, ...
func every(codes []conform.Code, step int) (selected []conform.Code) {
	for index := 0; index < len(codes); index += step {
		selected = append(selected, codes[index])
	}
	return selected
}

// Calls runs examples of ops of the catalogue on all devices, and compares the results with the references of the ops.
// Results may differ by a tolerance for their dtype.
func Calls(t *testing.T, open func() ([]device.Device, error)) {
	t.Helper()
	eachDevice(t, open, func(d device.Device) {
		var counts conform.Counts
		for _, call := range selectedCalls(t) {
			if err := counts.Check(call, d.Info().ExactOps.Target, device.RunOn(d)); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %s", d.Info().Name, counts.String())
		if counts.Differing > 0 || counts.Equal == 0 {
			t.Error(counts.First)
		}
	})
}

// selectedCalls returns the calls that [Calls] runs, on random operands: the examples of ops, further signatures, and
// fused nodes. In short tests it omits most ops and signatures.
func selectedCalls(t *testing.T) (calls []*conform.Call) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for i, op := range kernels.All() {
		if i%testsize.Of(5, 1) == 0 {
			calls = append(calls, conform.Examples(op, rng)...)
		}
	}
	for i, signature := range conform.ExtraSignatures() {
		if i%testsize.Of(4, 1) != 0 {
			continue
		}
		call, err := conform.NewCall(kernels.Lookup(signature.Op), signature.Attrs, signature.In, rng)
		if err != nil {
			t.Fatal(signature.Op, err)
		}
		calls = append(calls, call)
	}
	fused, err := conform.Fused(kernels.Lookup, rng)
	if err != nil {
		t.Fatal(err)
	}
	return append(calls, fused...)
}

// Copies tests copies from one buffer to another by way of a buffer that the host cannot access.
func Copies(t *testing.T, open func() ([]device.Device, error)) {
	t.Helper()
	eachDevice(t, open, func(d device.Device) { testCopies(t, d) })
}

// testCopies runs [Copies] on one device: from a host buffer to a device buffer, and from there to a host buffer.
func testCopies(t *testing.T, d device.Device) {
	t.Helper()
	const size = 1000
	var buffers [3]*device.Buffer
	for i := range buffers {
		var err error
		hostAccess := i != 1
		if buffers[i], err = d.Alloc(size, hostAccess); err != nil {
			t.Fatal(err)
		}
		defer buffers[i].Free()
	}
	for i := range size {
		buffers[0].Bytes[i] = byte(i)
	}
	if err := d.Run([]device.Step{{To: buffers[1], From: buffers[0], Bytes: size},
		{To: buffers[2], From: buffers[1], Bytes: size}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buffers[0].Bytes, buffers[2].Bytes) {
		t.Errorf("%s: the copy differs", d.Info().Name)
	}
	for _, invalid := range []device.Step{{To: buffers[0], From: buffers[1], Bytes: size + 1}, {To: buffers[0]}} {
		if d.Run([]device.Step{invalid}) == nil {
			t.Errorf("%s: an invalid copy was run", d.Info().Name)
		}
	}
}

// eachDevice calls test for each device, and then closes all devices. It skips the test if there are no devices.
func eachDevice(t *testing.T, open func() ([]device.Device, error), test func(device.Device)) {
	t.Helper()
	devices, err := open()
	if len(devices) == 0 {
		t.Skipf("no device: %v", err)
	}
	for _, d := range devices {
		defer d.Close()
		test(d)
	}
}
