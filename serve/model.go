package serve

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/batching"
)

// model is one loaded version of a model.
type model struct {
	name, version   string
	files           signature // of the files from which the version was loaded
	program         *graphrun.Program
	inputs, outputs []port
	batchAxis       *batching.Axis // the dimension along which requests are joined; nil if they are not
	queue           *queue
	metrics         *modelMetrics
	lastDoc         atomic.Pointer[parsedDoc] // the JSON of the last request: see parseDoc
	users           atomic.Int64              // number of requests and batches, plus one while the server has the model
}

// leave ends the use of the model by a request, a batch or the server. After the last user, the memory of the model is
// returned to the system. The garbage collector alone would let repeated reloads double the memory of the process.
func (m *model) leave() {
	if m.users.Add(-1) == 0 {
		m.queue.server.collector.Reset(collectDelay)
	}
}

// collectDelay is the time between the last use of a model and the collection of its memory. Several models that are
// replaced together are collected together.
const collectDelay = 100 * time.Millisecond

// load reads and compiles a model. Requests are joined along dimension 0, if its size is the same symbol in all inputs,
// and if the rows (the indices of dimension 0) are proved to be independent: each row of the outputs depends only on
// the same row of the inputs. whyNotBatched is the reason why requests for the model cannot share a batch; nil if they
// can, or if batching is off.
func (s *Server) load(ctx context.Context, v version) (m *model, whyNotBatched, err error) {
	loader := s.options.Loader
	loader.FS = nil // the data files of a model on disk must be in its folder, also by symbolic links
	g, err := loader.Load(ctx, v.path)
	if err != nil {
		return nil, nil, err
	}
	m = &model{name: v.model, version: v.name, files: v.files, metrics: s.metrics.ofModel(v.model, v.name)}
	if err := m.findPorts(g); err != nil {
		return nil, nil, err
	}
	var symbol string // of the number of rows; empty if requests are not joined
	if s.options.Batching != BatchOff {
		symbol, whyNotBatched = batching.Symbol(g, s.options.Compile.Sizes)
	}
	needsSamePlan := symbol != "" && s.options.Batching == BatchExact // a run uses the same plan alone and in a batch
	if needsSamePlan {
		m.program, err = s.compileForBatches(ctx, g, symbol)
	} else {
		m.program, err = graphrun.Compile(ctx, g, s.options.Compile)
	}
	if err != nil {
		return nil, nil, err
	}
	if symbol != "" {
		m.batchAxis, whyNotBatched = batching.Prove(ctx, m.program.Internal(), g, symbol, s.options.MaxRows,
			needsSamePlan)
	}
	m.queue = newQueue(s, m)
	m.users.Store(1)
	return m, whyNotBatched, nil
}

// findPorts sets the inputs and outputs of the model.
func (m *model) findPorts(g *graph.Graph) error {
	inputs, outputs, err := g.Ports(nil)
	if err != nil {
		return err
	}
	toPorts := func(list []graph.Port) (ports []port) {
		for _, p := range list {
			ports = append(ports, port{name: p.Name, dtype: p.DType, labels: p.Labels, shape: p.Shape, isOptional: p.HasDefault})
		}
		return ports
	}
	m.inputs, m.outputs = toPorts(inputs), toPorts(outputs)
	for _, p := range slices.Concat(m.inputs, m.outputs) {
		if p.datatype() == "" {
			return fmt.Errorf("%q has dtype %v, which the protocol does not support", p.name, p.dtype)
		}
	}
	return nil
}

// compileForBatches compiles a model with one plan for batches of all sizes, made for the preferred number of rows. If
// [batching.PreferOneRowPlan] prefers a plan for one row, that plan is used instead. symbol is the symbol of the number
// of rows.
func (s *Server) compileForBatches(ctx context.Context, g *graph.Graph, symbol string) (*graphrun.Program, error) {
	options, plannedRows := s.options.Compile, g.Symbols[symbol].Clamp(s.plannedRows())
	options.Hints = append([]map[string]int{{symbol: plannedRows}}, options.Hints...) // the plan is for the first hint
	compiled, err := graphrun.Compile(ctx, g, options)
	if err != nil {
		return nil, err
	}
	planIsForOneRow, pins, err := batching.PreferOneRowPlan(ctx, compiled.Internal(), g, symbol, plannedRows)
	if err != nil {
		return nil, err
	}
	if planIsForOneRow {
		options.Hints[0], options.Pins = map[string]int{symbol: 1}, pins
		return graphrun.Compile(ctx, g, options)
	}
	return compiled, nil
}

// defaultPlannedRows is the number of rows for which models are planned if Options.PreferredRows is nil. Batches then
// have at most this number of rows, or twice the least batch size if that is more: see [batching.Axis.EfficientRows].
const defaultPlannedRows = 8

// plannedRows returns the number of rows for which models are planned: see Options.PreferredRows.
func (s *Server) plannedRows() int {
	rows := defaultPlannedRows
	if len(s.options.PreferredRows) > 0 {
		rows = s.options.PreferredRows[0]
	}
	return min(rows, s.options.MaxRows)
}
