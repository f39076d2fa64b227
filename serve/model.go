package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graph/batch"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// model is one loaded version of a model.
type model struct {
	name, version   string
	files           signature
	program         *graphrun.Program
	inputs, outputs []port
	rows            *rowAxis // nil if requests are not joined
	queue           *queue
	metrics         *modelMetrics
}

// rowAxis is the first dimension of all inputs, along which requests are joined.
type rowAxis struct {
	symbol    string
	maxRows   int
	outputs   []bool // whether an output has rows, by output; other outputs are the same for all requests
	exact     bool   // whether only requests that have the same plan alone and in the batch are joined
	program   *program.Program
	openIndex int // index of symbol in program.OpenSymbols

	plansLock sync.Mutex
	plans     []*program.Specialization // one of each list of equal plans
}

// load reads and compiles a model. The second error says why its requests are not joined; it is nil if they are, or if
// batching is off.
func (s *Server) load(ctx context.Context, v version) (m *model, unjoined, err error) {
	l := s.options.Loader
	l.FS = os.DirFS(filepath.Dir(v.path))
	g, err := l.LoadContext(ctx, filepath.Base(v.path))
	if err != nil {
		return nil, nil, err
	}
	m = &model{name: v.model, version: v.name, files: v.files, metrics: s.metrics.ofModel(v.model, v.name)}
	if err := m.findPorts(g); err != nil {
		return nil, nil, err
	}
	o := s.options.Compile
	var symbol string
	if s.options.Batching != BatchOff {
		symbol, unjoined = rowSymbol(g)
	}
	if symbol != "" && s.options.Batching == BatchExact {
		o.Hints = append([]map[string]int{{symbol: s.typicalRows()}}, o.Hints...)
	}
	if m.program, err = graphrun.CompileContext(ctx, g, o); err != nil {
		return nil, nil, err
	}
	if symbol != "" {
		m.rows, unjoined = s.proveRows(ctx, m, g, symbol)
	}
	m.queue = newQueue(s, m)
	return m, unjoined, nil
}

// typicalRows returns the batch size for which models are planned: the first preferred size, or 8.
func (s *Server) typicalRows() int {
	rows := 8
	if len(s.options.PreferredRows) > 0 {
		rows = s.options.PreferredRows[0]
	}
	return min(rows, s.options.MaxRows)
}

// rowSymbol returns the symbol that is the first dimension of every input.
func rowSymbol(g *graph.Graph) (string, error) {
	symbol := ""
	for _, v := range g.Inputs {
		if len(v.Dims) == 0 || v.Dims[0].Symbol == "" || symbol != "" && v.Dims[0].Symbol != symbol {
			return "", fmt.Errorf("the first dimension of input %q is not the symbol of a batch size", v.Name)
		}
		symbol = v.Dims[0].Symbol
	}
	if symbol == "" {
		return "", errors.New("the model has no inputs")
	}
	if b := g.Symbols[symbol]; b.Max > 0 && b.Max < 2 {
		return "", fmt.Errorf("%s is at most %d", symbol, b.Max)
	}
	return symbol, nil
}

// proofRows are the batch sizes for which the independence of rows is proved. A model that computes with its batch size
// could be independent for one size by coincidence. The sizes are prime, which makes a coincidence of several unlikely.
var proofRows = []int{7, 11, 13}

// proveRows proves that the rows of a model are independent. The error names the node that prevents it.
func (s *Server) proveRows(ctx context.Context, m *model, g *graph.Graph, symbol string) (*rowAxis, error) {
	p := (*program.Program)(m.program)
	r := &rowAxis{symbol: symbol, maxRows: s.options.MaxRows, exact: s.options.Batching == BatchExact, program: p,
		openIndex: slices.Index(p.OpenSymbols(), symbol)}
	if r.openIndex < 0 {
		return nil, fmt.Errorf("%s is fixed", symbol)
	}
	if !p.Specializes() {
		return nil, errors.New("shapes depend on data")
	}
	bounds := g.Symbols[symbol]
	if bounds.Max > 0 {
		r.maxRows = min(r.maxRows, bounds.Max)
	}
	dims := map[string]int{}
	for _, v := range g.Inputs {
		dims[v.Name] = 0
	}
	for _, rows := range proofRows {
		if rows < bounds.Min || bounds.Max > 0 && rows > bounds.Max {
			continue
		}
		sizes := slices.Clone(p.AssumedSizes())
		sizes[r.openIndex] = rows
		bound, err := p.GraphAt(context.WithoutCancel(ctx), sizes)
		if err != nil {
			return nil, err
		}
		proof, err := batch.Follow(bound, dims)
		if err != nil {
			return nil, err
		}
		r.outputs = make([]bool, len(m.outputs))
		for i, dim := range proof.Outputs() {
			if dim > 0 {
				return nil, fmt.Errorf("the rows of output %q are in dimension %d", m.outputs[i].name, dim)
			}
			r.outputs[i] = dim == 0
		}
	}
	if r.outputs == nil {
		return nil, fmt.Errorf("the bounds of %s admit none of the batch sizes %v", symbol, proofRows)
	}
	return r, nil
}

// planAt returns the plan that serves the sizes of a request with another number of rows; nil if there is none. Plans
// with the same decisions, which compute the same bits for each row, are represented by one of them.
func (r *rowAxis) planAt(sizes []int, rows int) *program.Specialization {
	sizes = slices.Clone(sizes)
	sizes[r.openIndex] = rows
	plan := r.program.SpecializationFor(context.Background(), sizes)
	if plan == nil {
		return nil
	}
	r.plansLock.Lock()
	defer r.plansLock.Unlock()
	for _, p := range r.plans {
		if p == plan || p.Decisions.Equal(plan.Decisions) {
			return p
		}
	}
	if len(r.plans) >= maxPlans {
		return plan
	}
	r.plans = append(r.plans, plan)
	return plan
}

// maxPlans bounds the plans that are kept for comparison.
const maxPlans = 16

// sizesOf returns the sizes of the open symbols for inputs.
func (r *rowAxis) sizesOf(g *graph.Graph, in map[string]*tensor.Tensor) ([]int, error) {
	shapeOf := func(name string) ([]int, bool) {
		if t := in[name]; t != nil {
			return t.Shape, true
		}
		return nil, false
	}
	byName, err := program.SizesOf(g.Inputs, shapeOf, nil, g.Symbols)
	if err != nil {
		return nil, err
	}
	sizes := slices.Clone(r.program.AssumedSizes())
	for i, name := range r.program.OpenSymbols() {
		if n, ok := byName[name]; ok {
			sizes[i] = n
		}
	}
	return sizes, nil
}

// findPorts describes the inputs and outputs of a graph.
func (m *model) findPorts(g *graph.Graph) error {
	described := g
	if g.Dynamic() {
		described = g.Unbacked().Graph
	}
	if symbolic, err := described.Symbolic(nil); err == nil && !g.Dynamic() {
		described = symbolic.Graph
	}
	for _, v := range g.Inputs {
		p := port{name: v.Name, dtype: v.Meta.DType, labels: g.Labels[v.Name], shape: append([]int{}, v.Meta.Shape...)}
		if v.Dims != nil {
			p.shape = make([]int, len(v.Dims))
			for k, d := range v.Dims {
				if p.shape[k] = d.Size; !d.IsNumber() {
					p.shape[k] = -1
				}
			}
		}
		m.inputs = append(m.inputs, p)
	}
	for i, output := range described.Outputs {
		p := port{name: output.Name, dtype: g.Outputs[i].Value.Meta.DType, labels: g.Labels[output.Name]}
		if t := output.Value.Type; t.Shape != nil || !output.Value.Dynamic {
			p.dtype, p.shape = t.DType, sizesOrUnknown(t.Shape)
		}
		m.outputs = append(m.outputs, p)
	}
	for _, p := range slices.Concat(m.inputs, m.outputs) {
		if p.datatype() == "" {
			return fmt.Errorf("%q has dtype %v, which has no name in the protocol", p.name, p.dtype)
		}
	}
	return nil
}

// sizesOrUnknown returns sizes as numbers, -1 for an expression.
func sizesOrUnknown(shape []sym.Int) []int {
	list := make([]int, len(shape))
	for i, n := range shape {
		size, known := n.Known()
		if list[i] = size; !known {
			list[i] = -1
		}
	}
	return list
}
