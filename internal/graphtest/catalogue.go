// Package graphtest is a catalogue of a few ops, one of each kind. Tests of package graph, and of packages that read
// and write graphs, use it instead of package kernels. They cannot import kernels, because kernels imports graph. The
// ops cannot be run.
//
// Infer functions return the type of each result. For a view, they also return the viewed operand (Alias). graph.View
// ops make views. graph.RequiresLayout ops have implementations that read only some layouts.
package graphtest

import (
	"errors"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

type alphaAttrs struct {
	Alpha tensor.Scalar `attr:"alpha" default:"1" doc:"factor of other"`
}

type noAttrs struct{}

type permuteAttrs struct {
	Dims []int `attr:"dims"`
}

// SizeAttrs are the attributes of the op expand.
type SizeAttrs struct {
	Size []int `attr:"size"`
}

type chunkAttrs struct {
	Chunks int `attr:"chunks"`
	Dim    int `attr:"dim" default:"0"`
}

type windowAttrs struct {
	Stride  []int   `attr:"stride" default:"1" len:"2"`
	Padding []int   `attr:"padding" default:"0" len:"2"`
	Groups  int     `attr:"groups" default:"1"`
	Eps     float64 `attr:"eps" default:"1e-05"`
	Mode    string  `attr:"mode" default:"zeros" oneof:"zeros|reflect"`
}

// EveryAttrs has one attribute of each type. The op with these attributes is named "every".
type EveryAttrs struct {
	Flag   bool                `attr:"flag" default:"false"`
	Int    int                 `attr:"int" default:"3"`
	Float  float64             `attr:"float" default:"0.5"`
	Text   string              `attr:"text" default:"a" oneof:"a|b"`
	Ints   []int               `attr:"ints" default:"1,2"`
	Floats []float64           `attr:"floats" default:"none"`
	Bools  []bool              `attr:"bools" default:"none"`
	MaybeI *int                `attr:"maybe_int" default:"none"`
	MaybeF *float64            `attr:"maybe_float" default:"none"`
	MaybeB *bool               `attr:"maybe_bool" default:"none"`
	Number tensor.Scalar       `attr:"number" default:"1"`
	DType  tensor.DType        `attr:"dtype" default:"none"`
	Format tensor.MemoryFormat `attr:"memory_format" default:"none"`
	Pair   []int               `attr:"pair" default:"0" len:"2"`
}

type bodyAttrs struct {
	Body *graph.Graph `attr:"body"`
	Int  int          `attr:"int" default:"1"`
}

// inferBody returns the type of the first output of the attribute body.
func inferBody(call *graph.Call) ([]graph.Result, error) {
	return call.NewResult(call.Attrs.(*bodyAttrs).Body.Outputs[0].Value.Type), nil
}

// binary is the iteration of an op of two operands.
func binary(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Binary(outs[0], call.In[0].Operand(), call.In[1].Operand()), nil
}

// Unary is the iteration of an op of one operand.
func Unary(call *graph.Call, outs []rule.Operand) (rule.Config, error) {
	return rule.Unary(outs[0], call.In[0].Operand()), nil
}

// NoBody is a kernel that does nothing.
func NoBody(*graph.Call, *rule.Rule) (rule.Kernel, error) { return rule.Kernel{}, nil }

// pointwise returns a pointwise op without a body.
func pointwise(name string, s *graph.Schema, p *graph.Pointwise, params ...graph.Param) *graph.Op {
	p.Body = NoBody
	return &graph.Op{Semantics: graph.Semantics{Name: name, Doc: name, Params: params, Schema: s},
		Lowerings: graph.Lowerings{Pointwise: p}}
}

var (
	// Self is the only operand of most ops.
	Self          = graph.Param{Name: "self"}
	selfOrNumber  = graph.Param{Name: "self", AcceptsNumber: true}
	otherOrNumber = graph.Param{Name: "other", AcceptsNumber: true}

	// Catalogue holds the ops by name.
	Catalogue = map[string]*graph.Op{}
)

func init() {
	for _, op := range []*graph.Op{
		pointwise("add", graph.SchemaOf[alphaAttrs](), &graph.Pointwise{Config: binary}, selfOrNumber, otherOrNumber),
		pointwise("mul", graph.SchemaOf[noAttrs](), &graph.Pointwise{Config: binary}, selfOrNumber, otherOrNumber),
		pointwise("relu", graph.SchemaOf[noAttrs](), &graph.Pointwise{Config: Unary}, Self),
		pointwise("every", graph.SchemaOf[EveryAttrs](), &graph.Pointwise{Config: Unary}, Self),
		{Semantics: graph.Semantics{
			Name: "permute", Kind: graph.View, Params: []graph.Param{Self}, Schema: graph.SchemaOf[permuteAttrs](),
			Infer: inferPermute,
		}},
		{Semantics: graph.Semantics{
			Name: "expand", Kind: graph.View, Params: []graph.Param{Self}, Schema: graph.SchemaOf[SizeAttrs](),
			Infer: inferExpand,
		}},
		{Semantics: graph.Semantics{
			Name: "chunk", Kind: graph.View, Params: []graph.Param{Self}, Schema: graph.SchemaOf[chunkAttrs](),
			Infer: inferChunk, VariadicResults: true,
		}},
		{Semantics: graph.Semantics{
			Name: "cat", Params: []graph.Param{{Name: "tensors", Variadic: true}}, Schema: graph.SchemaOf[noAttrs](),
			Infer: InferLikeFirst,
		}},
		{
			Semantics: graph.Semantics{
				Name: "conv2d", Kind: graph.RequiresLayout, Schema: graph.SchemaOf[windowAttrs](), Infer: inferConv,
				Params: []graph.Param{{Name: "input"}, {Name: "weight"}, {Name: "bias", Optional: true}},
			},
			Lowerings: graph.Lowerings{Impls: ConvImpls()},
		},
		{Semantics: graph.Semantics{
			Name: "var_mean", Params: []graph.Param{Self}, Schema: graph.SchemaOf[noAttrs](),
			Outputs: []string{"var", "mean"}, Infer: inferVarMean,
		}},
		{Semantics: graph.Semantics{
			Name: "call", Params: []graph.Param{{Name: "values", Variadic: true, Optional: true}},
			Infer: inferBody, Schema: graph.SchemaOf[bodyAttrs](),
		}},
		{Semantics: graph.Semantics{
			Name: "clone", Params: []graph.Param{Self},
			Schema: graph.SchemaOf[struct {
				Format tensor.MemoryFormat `attr:"memory_format" default:"none"`
			}](),
			Infer: InferLikeFirst,
		}},
	} {
		op.NoRef = "nothing is evaluated here" // the reason why there is no reference implementation
		if op.Compile == nil && op.Pointwise == nil && op.Impls == nil {
			op.Compile = func(*graph.Call) (*graph.Kernel, error) { return nil, errors.New("nothing is run here") }
		}
		Catalogue[op.Name] = define(*op)
	}
}

// define completes an op. It panics if the op is invalid.
func define(op graph.Op) *graph.Op {
	defined, err := fusion.Define(op)
	if err != nil {
		panic(err)
	}
	return defined
}

// Lookup finds an op of the catalogue.
func Lookup(name string) *graph.Op { return Catalogue[name] }

func inferPermute(call *graph.Call) ([]graph.Result, error) {
	meta, err := call.Meta(0).Permute(call.Attrs.(*permuteAttrs).Dims)
	return call.AliasResult(meta.Type(), 0), err
}

func inferExpand(call *graph.Call) ([]graph.Result, error) {
	meta, err := call.Meta(0).Expand(call.Attrs.(*SizeAttrs).Size)
	return call.AliasResult(meta.Type(), 0), err
}

func inferChunk(call *graph.Call) ([]graph.Result, error) {
	attrs := call.Attrs.(*chunkAttrs)
	chunks, err := call.Meta(0).Chunk(attrs.Chunks, attrs.Dim)
	var results []graph.Result
	for _, meta := range chunks {
		results = append(results, graph.Result{Type: meta.Type(), Alias: 0})
	}
	return results, err
}

// InferLikeFirst infers a row-major result with the dtype and the shape of operand 0. It ignores the other operands.
func InferLikeFirst(call *graph.Call) ([]graph.Result, error) {
	meta := call.Meta(0)
	return call.NewResult(tensor.New(meta.DType, meta.Shape...).Type()), nil
}

// inferConv infers a result with the size of the image, in the memory format that the strides of the image suggest.
func inferConv(call *graph.Call) ([]graph.Result, error) {
	x, weight := call.Meta(0), call.Meta(1)
	if x.Rank() != 4 || weight.Rank() != 4 {
		return nil, errors.New("expected 4D operands")
	}
	shape := []int{x.Shape[0], weight.Shape[0], x.Shape[2], x.Shape[3]}
	const exactMatch = false // the strides need only resemble the strides of a format
	meta, err := tensor.NewFormat(x.DType, shape, x.SuggestMemoryFormat(exactMatch))
	return call.NewResult(meta.Type()), err
}

// ConvImpls returns two implementations of conv2d: nchw reads only contiguous images, and nhwc reads only channels-last
// images.
func ConvImpls() []graph.Impl {
	impl := func(name string, f tensor.MemoryFormat) graph.Impl {
		order, _ := f.Order(4)
		return graph.Impl{Name: name,
			Walks: func(call *graph.Call, _ []tensor.Order) []graph.Walk { return []graph.Walk{call.WalkInOrder(order)} },
			Read: func(_ *graph.Call, _ graph.Walk, i int, meta tensor.Meta) (pricing.Work, bool) {
				isImage := i == 0 // weight and bias may have any layout
				return pricing.Work{}, !isImage || order.Matches(meta)
			},
			Lower: func(*graph.Call) (*graph.Kernel, error) { return nil, errors.New("nothing is run here") }}
	}
	return []graph.Impl{impl("nchw", tensor.Contiguous), impl("nhwc", tensor.ChannelsLast)}
}

// inferVarMean infers two results without dimensions.
func inferVarMean(call *graph.Call) ([]graph.Result, error) {
	meta := tensor.New(call.Meta(0).DType)
	return []graph.Result{{Type: meta.Type(), Alias: graph.NoAlias}, {Type: meta.Type(), Alias: graph.NoAlias}}, nil
}
