package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/onnx/internal/symbolic"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// maxOpset is the newest supported operator set.
const maxOpset = 28

// Model is an ONNX model before its conversion. It is not safe for concurrent use.
type Model struct {
	file      *modelfile.File
	functions map[functionKey]*pb.FunctionProto
	symbols   map[string]string // the symbol of each dim_param that is no identifier; see dimnames.go
	// cycles has the error of the first node of each cycle, and cycleErrors all of them: see order.go.
	cycles      map[*pb.NodeProto]error
	cycleErrors []error
}

// functionKey identifies a function of a model.
type functionKey struct{ domain, name, overload string }

// NewModel returns the model in a file.
func NewModel(file *modelfile.File) *Model {
	m := &Model{file: file, functions: map[functionKey]*pb.FunctionProto{}, symbols: map[string]string{},
		cycles: map[*pb.NodeProto]error{}}
	for _, f := range file.Proto.Functions {
		m.functions[functionKey{CanonicalDomain(f.Domain), f.Name, f.Overload}] = f
	}
	m.nameSymbols()
	m.sortNodes()
	return m
}

// function returns the function of the model that a node calls. It returns nil for an operator, and for a function that
// a custom converter replaces.
func (m *Model) function(n *pb.NodeProto, t *Table) *pb.FunctionProto {
	domain := CanonicalDomain(n.Domain)
	if t.Custom[Operator{domain, n.OpType}] {
		return nil
	}
	return m.functions[functionKey{domain, n.OpType, n.Overload}]
}

// Options configure a conversion. Lookup and Table are required.
type Options struct {
	Dims   map[string]int   // sizes of symbols, by their names or by the model's dim_params
	Shapes map[string][]int // shapes of inputs by name

	Lookup graph.Lookup
	Table  *Table

	UnavailableInputs map[string]error // the reasons why inputs are not available, by input; used if SkipErrors is set
	Context           context.Context  // cancels the conversion; may be nil
	SkipErrors        bool             // whether the conversion continues after mistakes: see skipped.go

	constantDefaults int // which defaults of inputs are constants: see inputs.go
}

// CanonicalDomain returns the canonical name of a domain. The default domain has the names "" and "ai.onnx". The
// canonical name is "".
func CanonicalDomain(d string) string {
	if d == "ai.onnx" {
		return ""
	}
	return d
}

// opsetsOf returns the operator-set version of each domain.
func opsetsOf(imports []*pb.OperatorSetIDProto) (map[string]int, error) {
	versions := map[string]int{}
	for _, imported := range imports {
		domain := CanonicalDomain(imported.Domain)
		if domain == "" && (imported.Version < 1 || imported.Version > maxOpset) {
			return nil, fmt.Errorf("operator set %d is not supported: want 1 to %d", imported.Version, maxOpset)
		}
		versions[domain] = int(imported.Version)
	}
	return versions, nil
}

// Signature returns a graph with the model's inputs and no nodes. It omits unsupported inputs. Inputs of unknown rank
// are [graph.Value.Dynamic].
func (m *Model) Signature() *graph.Graph {
	im := m.importer(Options{})
	im.graph.Symbols = map[string]graph.Bounds{}
	weights := &scope{importer: im, values: map[string]*Value{}}
	_ = im.addInitializers(&pb.GraphProto{Initializer: m.weightsOfInputs()}, weights, &frame{skipsInvalidNodes: true})
	for _, initializer := range m.file.Proto.Graph.Initializer {
		if weights.values[initializer.Name] == nil {
			weights.values[initializer.Name] = &Value{} // a constant
		}
	}
	for _, input := range m.file.Proto.Graph.Input {
		switch weight := weights.values[input.Name]; {
		case weight != nil && im.isDefault(weight):
			_, _ = im.addDefaultInput(input, weight.data)
		case weight != nil:
		case input.TensorType() != nil && input.TensorType().Shape == nil:
			ranked := *input
			ranked.Type = &pb.TypeProto{TensorType: &pb.TensorType{ElemType: input.TensorType().ElemType,
				Shape: &pb.TensorShapeProto{}}}
			if v, err := im.addModelInput(&ranked); err == nil {
				v.graphValue.Dynamic = true
			}
		default:
			_, _ = im.addModelInput(input)
		}
		_ = im.graph.TakeErr() // an unsupported input is omitted
	}
	return im.graph
}

// Conversion is the result of a conversion.
type Conversion struct {
	Graph      *graph.Graph
	Skipped    graph.Errors // skipped mistakes: see skipped.go
	errorCount int          // number of skipped mistakes, rejected nodes included
}

// Convert converts the model. It tries several sets of example sizes of the symbols ([Hints]) until a conversion
// succeeds. For example, a convolutional network may be rejected for images of 2x2 pixels but accepted for images of
// 224x224 pixels. If mistakes are skipped, Convert returns the conversion with the fewest mistakes.
func (m *Model) Convert(o Options) (_ *Conversion, err error) {
	defer tensor.CatchMemory(&err)
	defer interrupt.Catch(&err)
	m.file.SetContext(o.Context)
	defer m.file.SetContext(context.Background())
	// The checks of the options and of the model.
	if o.Dims, err = m.Sizes(o.Dims); err != nil {
		return nil, err
	}
	opsets, err := opsetsOf(m.file.Proto.OpsetImport)
	if err != nil {
		return nil, err
	}
	if _, ok := opsets[""]; !ok {
		opsets[""] = 1 // models older than operator sets
	}
	if !o.SkipErrors {
		if err := cmp.Or(errors.Join(m.cycleErrors...), m.checkSupported(o.Table)); err != nil {
			return nil, err
		}
	}

	// After the conversion, the graph's symbols get default sizes in place of the example sizes.
	best, err := m.convertWithDefaults(o, opsets)
	if err = cmp.Or(err, interrupt.Err(o.Context)); err != nil {
		return nil, err
	}
	defer best.Graph.SetContext(context.Background()) // the graph may be used after the context of the import has ended
	for _, entry := range m.file.Proto.MetadataProps {
		if best.Graph.Metadata == nil {
			best.Graph.Metadata = map[string]string{}
		}
		best.Graph.Metadata[entry.Key] = entry.Value
	}
	if o.SkipErrors {
		return best, rebindSkippingErrors(best.Graph, best.Graph.BoundSizes())
	}
	return best, rebind(best.Graph, best.Graph.BoundSizes())
}

// allWeightsAreInputs is the last version of the file format in which all initializers must be inputs.
const allWeightsAreInputs = 3

// convertWithDefaults converts the model with the initializers of inputs as their defaults. If that fails because
// operators need the values before the run, it converts the model with fewer defaults: the others are constants. In a
// file of version 3, a weight is an input even if no run is meant to override it. There, defaults are also given up if
// shapes would depend on them.
func (m *Model) convertWithDefaults(o Options, opsets map[string]int) (result *Conversion, err error) {
	mayHaveDefaults := len(m.weightsOfInputs()) > 0
	for o.constantDefaults = range defaultLevels {
		result, err = m.convertAtBestHints(o, opsets)
		if err != nil && interrupt.Err(o.Context) != nil {
			return nil, err
		}
		isGood := err == nil && result.errorCount == 0 &&
			(m.file.Proto.IrVersion > allWeightsAreInputs || !result.Graph.Dynamic())
		if isGood || !mayHaveDefaults {
			break
		}
	}
	return result, err
}

// importer returns an importer for the model's main graph.
func (m *Model) importer(o Options) *importer {
	g := graph.New(m.file.Proto.Graph.Name, o.Lookup)
	g.SetContext(o.Context)
	return &importer{model: m, opts: o, graph: g, failed: &failedNode{}, hasModelName: map[*graph.Value]bool{},
		symbols: symbolic.NewSymbols(), hints: map[string]int{}, usedSymbols: map[string]bool{},
		symbolInputs: map[string]*Value{}, shapes: map[*graph.Value][]sym.Int{}, valuesInAttrs: map[*graph.Value]*Value{},
		symbolElements: map[string]symbolElement{}}
}

// convertAtHints converts the model's graph at the importer's hints, which are example sizes of the symbols.
func (im *importer) convertAtHints(f *frame) (*Conversion, error) {
	g, err := im.convert(f)
	for name, limit := range im.symbols.Limits() { // for greater sizes, the expressions of sizes would be wrong
		bounds := im.graph.Symbols[name]
		bounds.Max = limit
		im.graph.Symbols[name] = bounds
	}
	return &Conversion{Graph: g, Skipped: im.skipped, errorCount: len(im.skipped) + im.rejectedCount}, err
}

// rebind gives symbols their default sizes, which apply until a caller binds the symbols: those of [imageSizes], if the
// graph accepts them, or else the graph's own defaults. If the graph rejects these, too, the sizes for which it was
// built become the default sizes.
func rebind(g *graph.Graph, sizes map[string]int) error {
	if len(g.Symbols) == 0 {
		return nil
	}
	if images := imageSizes(g, sizes); len(images) > 0 {
		others := maps.Clone(sizes)
		maps.Copy(others, images)
		for _, given := range []map[string]int{images, others} {
			if g.Bind(given) == nil && largestValue(g) <= maxImageElements {
				assume(g, given)
				return nil
			}
		}
	}
	if g.Bind(nil) == nil {
		return nil
	}
	err := g.Bind(sizes)
	assume(g, sizes)
	return err
}

// assume makes sizes default sizes, which a caller may replace.
func assume(g *graph.Graph, sizes map[string]int) {
	for name, n := range sizes {
		g.Assume(name, n)
	}
}

// largestValue returns the number of elements of the largest value.
func largestValue(g *graph.Graph) (largest int) {
	g.Values(func(v *graph.Value) { largest = max(largest, v.Meta.Numel()) })
	return largest
}

// Bounds on the default sizes of images.
const (
	typicalImageSize = 200     // least height and width
	maxImageElements = 1 << 25 // maximum number of elements of a value
)

// imageSizes returns default sizes for the heights and widths of images: the sizes that inputs of four dimensions or
// more have behind the first one, if two or more of them are symbols that no input of fewer dimensions has. (In a mask
// of an attention, they are also the lengths of texts.) A size is the least one of at least typicalImageSize that is a
// power of two times the size for which the graph was built. Small images need other implementations: a network planned
// for 64x64 took 1.46 times as long at 512x512 as one planned for 256x256.
func imageSizes(g *graph.Graph, built map[string]int) map[string]int {
	images := map[string]int{}
	for _, input := range g.Inputs {
		if len(input.Dims) < 4 || !input.Type.DType.IsFloat() && input.Type.DType != tensor.Uint8 {
			continue
		}
		var symbols []string
		for _, dim := range input.Dims[1:] {
			isText := func(other *graph.Value) bool { return len(other.Dims) < 4 && other.Declared().DependsOn(dim.Symbol) }
			if dim.Symbol != "" && g.Symbols[dim.Symbol].Hint == nil && !slices.ContainsFunc(g.Inputs, isText) {
				symbols = append(symbols, dim.Symbol)
			}
		}
		if len(symbols) < 2 {
			continue
		}
		for _, name := range symbols {
			size := max(1, built[name])
			for size < typicalImageSize {
				size *= 2
			}
			images[name] = g.Symbols[name].Clamp(size)
		}
	}
	return images
}
