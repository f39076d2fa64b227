package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"

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
}

// functionKey identifies a function of a model.
type functionKey struct{ domain, name, overload string }

// NewModel returns the model in a file.
func NewModel(file *modelfile.File) *Model {
	m := &Model{file: file, functions: map[functionKey]*pb.FunctionProto{}, symbols: map[string]string{}}
	for _, f := range file.Proto.Functions {
		m.functions[functionKey{CanonicalDomain(f.Domain), f.Name, f.Overload}] = f
	}
	m.nameSymbols()
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

// Signature returns a graph with the model's inputs and no nodes. It omits inputs of unknown rank and unsupported
// inputs.
func (m *Model) Signature() *graph.Graph {
	im := m.importer(Options{})
	im.graph.Symbols = map[string]graph.Bounds{}
	weights := map[string]bool{}
	for _, proto := range m.file.Proto.Graph.Initializer {
		weights[proto.Name] = true
	}
	for _, input := range m.file.Proto.Graph.Input {
		if weights[input.Name] || input.TensorType() != nil && input.TensorType().Shape == nil {
			continue
		}
		_, _ = im.addModelInput(input)
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
		if err := m.checkSupported(o.Table); err != nil {
			return nil, err
		}
	}

	// After the conversion, the graph's symbols get default sizes in place of the example sizes.
	best, err := m.convertAtBestHints(o, opsets)
	switch {
	case err != nil:
		return nil, err
	case interrupt.Err(o.Context) != nil:
		return nil, interrupt.Err(o.Context)
	case o.SkipErrors:
		defer best.Graph.SetContext(context.Background())
		return best, rebindSkippingErrors(best.Graph, best.Graph.BoundSizes())
	}
	defer best.Graph.SetContext(context.Background()) // the graph may be used after the context of the import has ended
	return best, rebind(best.Graph, best.Graph.BoundSizes())
}

// convertAtBestHints converts the model at one set of [Hints] after another. It stops at the first conversion without
// mistakes. For a model without symbols it tries only one set. It returns the conversion with the fewest mistakes. If
// no conversion succeeds, it returns the error of the first conversion.
func (m *Model) convertAtBestHints(o Options, opsets map[string]int) (*Conversion, error) {
	var best *Conversion
	var firstErr error
	for _, hints := range Hints {
		interrupt.Check(o.Context) // ends the import if the context has ended
		attempt := m.importer(o)
		if err := attempt.bindHints(hints.First, hints.Step); err != nil {
			return nil, err
		}
		symbols := len(attempt.graph.Symbols)
		result, err := attempt.convertAtHints(&frame{opsets: opsets, unrollBudget: maxUnrolled,
			skipsInvalidNodes: o.SkipErrors})
		var limit limitError
		unit, isUnit := unitSize{}, false
		if errors.As(err, &limit) {
			unit, isUnit = limit.error.(unitSize)
		}
		switch {
		case isUnit:
			o.Dims = maps.Clone(o.Dims) // not nil: see [Model.Sizes]
			o.Dims[unit.symbol] = 1
			return m.convertAtBestHints(o, opsets)
		case err != nil && firstErr == nil:
			firstErr = err
		case err == nil && (best == nil || result.errorCount < best.errorCount):
			best = result
		}
		if symbols == 0 || best != nil && best.errorCount == 0 {
			break
		}
	}
	if best == nil {
		return nil, firstErr
	}
	return best, nil
}

// importer returns an importer for the model's main graph.
func (m *Model) importer(o Options) *importer {
	g := graph.New(m.file.Proto.Graph.Name, o.Lookup)
	g.SetContext(o.Context)
	return &importer{model: m, opts: o, graph: g, hasModelName: map[*graph.Value]bool{},
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

// rebind gives symbols their default sizes, which apply until a caller binds the symbols. If the graph rejects these
// sizes, the sizes for which the graph was built become the default sizes.
func rebind(g *graph.Graph, sizes map[string]int) error {
	if len(g.Symbols) == 0 || g.Bind(nil) == nil {
		return nil
	}
	err := g.Bind(sizes)
	for name, n := range sizes {
		g.Assume(name, n) // default sizes, which a caller may replace
	}
	return err
}
