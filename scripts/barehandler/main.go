// Command barehandler serves a model by a minimal net/http handler: without a queue, limits, metrics or checks. Its
// latency is a lower bound for package serve on the same machine. bench/peers/serve.py starts it.
//
//	go run ./scripts/barehandler -listen 127.0.0.1:8000 -dims 1,3,224,224 resnet18.onnx
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// jsonLengthHeader is the HTTP header with the length of the JSON, which precedes the data of a tensor.
const jsonLengthHeader = "Inference-Header-Content-Length"

func main() {
	log.SetFlags(0)
	address := flag.String("listen", "127.0.0.1:8000", "the address of the server")
	dims := flag.String("dims", "1,3,224,224", "the shape of the model's only input")
	flag.Parse()
	h, err := load(flag.Arg(0), *dims)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*address, h))
}

// datatypes are the protocol's names of the supported dtypes of inputs.
var datatypes = map[tensor.DType]string{tensor.Float32: "FP32", tensor.Int64: "INT64"}

// handler runs a model that has one input, float32 or int64.
type handler struct {
	program *graphrun.Program
	input   string
	meta    tensor.Meta // of the input
	bodies  sync.Pool   // of *[]uint64: memory for the input
}

// load compiles the model of a file for an input with the sizes dims, a JSON list without brackets.
func load(path, dims string) (*handler, error) {
	var shape []int
	if err := json.Unmarshal([]byte("["+dims+"]"), &shape); err != nil {
		return nil, fmt.Errorf("-dims: %w", err)
	}
	g, err := graphrun.Load(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if len(g.Inputs) != 1 || datatypes[g.Inputs[0].Meta.DType] == "" {
		return nil, fmt.Errorf("%s: want a model with one input, float32 or int64", path)
	}
	if slices.ContainsFunc(shape, func(n int) bool { return n < 0 }) {
		return nil, fmt.Errorf("-dims %s: sizes must not be negative", dims)
	}
	h := &handler{input: g.Inputs[0].Name, meta: tensor.New(g.Inputs[0].Meta.DType, shape...)}
	hint := map[string]int{}
	for k, dim := range g.Inputs[0].Dims {
		if dim.Symbol != "" && k < len(shape) {
			hint[dim.Symbol] = shape[k]
		}
	}
	h.program, err = graphrun.Compile(context.Background(), g, graphrun.Options{Hints: []map[string]int{hint}})
	return h, err
}

// ServeHTTP answers any GET request with the metadata, and any other request with the outputs of a run.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, `{"inputs":[{"name":%q,"datatype":%q}]}`, h.input, datatypes[h.meta.DType])
		return
	}
	if err := h.infer(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// infer runs the model on the data of a request, and writes the data of its outputs.
func (h *handler) infer(w http.ResponseWriter, r *http.Request) error {
	jsonLength, err := strconv.Atoi(r.Header.Get(jsonLengthHeader))
	dataLength := h.meta.Numel() * h.meta.DType.Size()
	if err != nil || jsonLength < 0 || r.ContentLength != int64(jsonLength+dataLength) {
		return fmt.Errorf("%s must be a number, and %d bytes must follow the JSON", jsonLengthHeader, dataLength)
	}
	if _, err := io.CopyN(io.Discard, r.Body, int64(jsonLength)); err != nil {
		return err
	}
	body, _ := h.bodies.Get().(*[]uint64)
	if body == nil {
		data := make([]uint64, (dataLength+7)/8)
		body = &data
	}
	defer h.bodies.Put(body)
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(*body))), dataLength)
	if _, err := io.ReadFull(r.Body, data); err != nil {
		return err
	}
	in, err := tensor.FromStorage(h.meta, tensor.StorageOf(data))
	if err != nil {
		return err
	}
	out, err := h.program.Run(r.Context(), map[string]*tensor.Tensor{h.input: in})
	if err != nil {
		return err
	}
	var results [][]byte
	length := 0
	for _, t := range out {
		defer t.Release()
		elements := t.Contiguous()
		first := elements.Offset * elements.DType.Size()
		results = append(results, elements.Storage().Bytes()[first:][:elements.Numel()*elements.DType.Size()])
		length += len(results[len(results)-1])
	}
	w.Header().Set("Content-Length", strconv.Itoa(length))
	for _, data := range results {
		_, _ = w.Write(data) // the client may be gone
	}
	return nil
}
