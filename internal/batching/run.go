package batching

import (
	"context"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Run has the inputs of a run that may be joined with other runs.
type Run struct {
	In    map[string]*tensor.Tensor
	Rows  int   // 0 if the run cannot be joined
	sizes []int // values of program.OpenSymbols, the batch size included; nil if Rows is 0
	plan  *plan // the plan of the run alone, if Axis.exact is set; nil if there is none
}

// NewRun returns a run. The inputs must be contiguous. The run cannot be joined if the receiver is nil, if the inputs
// are invalid or override a default, or if the number of rows is 0 or not below the maximum of a batch. NewRun plans
// the program for the run's sizes. If the context ends first, the run is not joined.
func (a *Axis) NewRun(ctx context.Context, in map[string]*tensor.Tensor) *Run {
	run := a.NewSingleRun(in)
	if run.Rows > 0 && a.exact {
		run.plan = a.planAt(ctx, run.sizes, run.Rows)
	}
	return run
}

// NewSingleRun returns a run as [Axis.NewRun] does, without the search for the run's plan. It is for callers that do
// not join the run.
func (a *Axis) NewSingleRun(in map[string]*tensor.Tensor) *Run {
	run := &Run{In: in}
	if a == nil || a.program.Overrides(in) {
		return run
	}
	sizes, err := a.sizesOf(in)
	if err != nil || sizes[a.openIndex] <= 0 || sizes[a.openIndex] >= a.maxRows {
		return run
	}
	run.Rows, run.sizes = sizes[a.openIndex], sizes
	return run
}

// Batch returns the indices of the runs that are joined with runs[0], in ascending order. The first index is 0.
// Together, joined runs have at most maxRows rows, and at most the number of rows that [Prove] permits. Batch plans the
// program for each new number of rows.
func (a *Axis) Batch(runs []*Run, maxRows int) []int {
	first := runs[0]
	chosen, rows := []int{0}, first.Rows
	if first.Rows == 0 {
		return chosen
	}
	maxRows = min(maxRows, a.maxRows)
	for i, run := range runs[1:] {
		if first.canJoin(run) && rows+run.Rows <= maxRows {
			chosen, rows = append(chosen, i+1), rows+run.Rows
		}
	}
	// Because of canJoin, each run alone has the plan first.plan. Remove the last run until the batch has this plan,
	// too.
	ctx := context.Background() // a batch belongs to several runs
	for a.exact && len(chosen) > 1 && (first.plan == nil || a.planAt(ctx, first.sizes, rows) != first.plan) {
		last := len(chosen) - 1
		chosen, rows = chosen[:last], rows-runs[chosen[last]].Rows
	}
	return chosen
}

// canJoin reports whether two runs can be joined: whether they have the same plan, and the same sizes apart from the
// number of rows.
func (r *Run) canJoin(other *Run) bool {
	if other.Rows == 0 || r.plan != other.plan {
		return false
	}
	for name, t := range r.In { // dimension 0 is the batch
		if !slices.Equal(t.Shape[1:], other.In[name].Shape[1:]) {
			return false
		}
	}
	return true
}

// joinedPool recycles the memory of joined inputs.
var joinedPool tensor.Pool

// Join concatenates the inputs of runs along the first dimension. The caller may release the result
// ([tensor.Tensor.Release]) when it uses neither the result nor the outputs of the joined run. Join does not copy the
// inputs of a single run.
func Join(runs []*Run) (in map[string]*tensor.Tensor, err error) {
	if len(runs) == 1 {
		return runs[0].In, nil
	}
	defer tensor.CatchMemory(&err)
	in = map[string]*tensor.Tensor{}
	for name, first := range runs[0].In {
		shape := slices.Clone(first.Shape)
		shape[0] = 0
		for _, run := range runs {
			shape[0] += run.Rows
		}
		meta := tensor.New(first.DType, shape...)
		const zeroed = false // all bytes are written below
		joined := tensor.Must(tensor.FromStorage(meta, joinedPool.Take(meta.Bytes(), zeroed)))
		data, parts := joined.Storage().Bytes(), make([]*tensor.Tensor, len(runs))
		for i, run := range runs {
			parts[i] = run.In[name]
			data = data[copy(data, run.In[name].Storage().Bytes()[:run.In[name].Bytes()]):]
		}
		if i := slices.IndexFunc(parts, func(t *tensor.Tensor) bool { return t.Texts() != nil }); i >= 0 {
			joined.SetTexts(parts[i].Texts().With(parts...))
		}
		in[name] = joined
	}
	return in, nil
}

// Split returns the outputs of each run of a batch, as views of the outputs of the batch.
func (a *Axis) Split(out map[string]*tensor.Tensor, runs []*Run) []map[string]*tensor.Tensor {
	if len(runs) == 1 {
		return []map[string]*tensor.Tensor{out}
	}
	total := 0
	for _, run := range runs {
		total += run.Rows
	}
	outputsByRun, row := make([]map[string]*tensor.Tensor, len(runs)), 0
	for i, run := range runs {
		outputsByRun[i] = make(map[string]*tensor.Tensor, len(out))
		for name, whole := range out {
			if !a.outputHasRows[name] {
				outputsByRun[i][name] = whole
				continue
			}
			slicesPerRow := whole.Shape[0] / total // the slices along dimension 0 that belong to one row of the batch
			meta := whole.Meta
			meta.Shape = append([]int{run.Rows * slicesPerRow}, whole.Shape[1:]...)
			meta.Offset += row * slicesPerRow * whole.Strides[0]
			outputsByRun[i][name] = tensor.Must(whole.View(meta))
		}
		row += run.Rows
	}
	return outputsByRun
}
