package onnxruntime

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// model has the input x, float32[1,4], and the outputs sum and difference, scalars of float32.
const model = "../../onnxruntime/testdata/sums.onnx"

func TestMain(m *testing.M) {
	if _, err := GetVersion(); err == nil {
		panic("the version is known before Init")
	}
	if err := Init(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestRuns(t *testing.T) {
	session := must(NewSessionFromBytes(must(os.ReadFile(model)), nil))
	input, output := session.Inputs()[0].Name, session.Outputs()[0].Name
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			x := must(CreateTensor([]int64{1, 4}, []float32{float32(i), 0, 0, 0}))
			out, err := session.Run(t.Context(), map[string]*Tensor{input: x}, []string{output})
			if err != nil || must(TensorData[float32](out[output]))[0] != float32(i) {
				t.Error(out, err)
			}
		})
	}
	all.Wait()

	x := must(CreateTensor([]int64{1, 4}, []float32{1, 2, 3, 4}))
	bytes := must(x.Bytes())
	if len(bytes) != 16 || x.ElementCount() != 4 || !x.IsTensor() {
		t.Error(bytes, x.ElementCount())
	}
	raw := must(NewTensorFromBytes(TensorElementDataTypeFloat32, []int64{1, 4}, bytes))
	if data := must(TensorData[float32](raw)); !slices.Equal(data, []float32{1, 2, 3, 4}) {
		t.Error(data)
	}
	binding := must(NewIOBinding(session))
	y := must(CreateTensor([]int64{}, make([]float32, 1)))
	for _, err := range []error{binding.BindInput(input, x), binding.BindOutput(output, y), binding.Run(nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if data := must(TensorData[float32](y)); data[0] != 10 {
		t.Error(data)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session.Run(ctx, map[string]*Tensor{input: x}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	options := must(NewRunOptions())
	_ = options.SetTerminate()
	if _, err := session.RunWithOptions(t.Context(), options, map[string]*Tensor{input: x}, nil); err == nil {
		t.Error("a terminated run succeeds")
	}
	if err := Shutdown(); err == nil {
		t.Error("Shutdown with an open session")
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// TestMistakes: each is an error that names what is wrong.
func TestMistakes(t *testing.T) {
	session := must(NewSession(model, nil))
	defer session.Close()
	input := session.Inputs()[0].Name
	x := must(CreateTensor([]int64{1, 4}, make([]float32, 4)))
	wrong := must(CreateTensor([]int64{1, 3}, make([]float32, 3)))
	run := func(inputs map[string]*Tensor, names ...string) error {
		_, err := session.Run(t.Context(), inputs, names)
		return err
	}
	_, noFile := NewSession("absent.onnx", nil)
	_, badLength := CreateTensor([]int64{2}, []float32{1})
	_, badType := TensorData[int64](x)
	_, notStrings := x.StringData()
	for want, err := range map[string]error{
		"NoSuchFile":                            noFile,
		"data length 1 does not match":          badLength,
		"tensor is Float32, requested Int64":    badType,
		"tensor is Float32, not String":         notStrings,
		`no input "z"`:                          run(map[string]*Tensor{input: x, "z": x}),
		`no output "z"`:                         run(map[string]*Tensor{input: x}, "z"),
		"has shape [1, 3]":                      run(map[string]*Tensor{input: wrong}),
		`run: input "` + input + `": tensor is`: run(map[string]*Tensor{input: nil}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
	var of *OrtError
	if !errors.As(noFile, &of) || of.Code != ErrorCodeNoSuchFile {
		t.Error(noFile)
	}
}
