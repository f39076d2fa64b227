package plan

import (
	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/inspect"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// Document is the output of the command plan: the report of a program, and the results of the given flags.
// Dims has the sizes in the measured runs, and ForAll the proofs that the plans have a property at all sizes.
type Document struct {
	report.Plan
	Dims         map[string]int           `json:"dims,omitzero" doc:"The sizes of the symbols of the graph for --measure."`
	Prices       []pricing.LabelPrice     `json:"prices,omitzero" doc:"For --measure, the measured prices of the steps, and those of --prices; --prices reads them."`
	Measured     *MeasuredPlan            `json:"measured,omitzero" doc:"The result of --measure; the measured time of each step is in steps."`
	Regret       *layout.RegretBound      `json:"regret,omitzero" doc:"How much less another plan can cost, at any prices within the intervals of the measured prices; left out without measured prices."`
	Rejected     []RejectedPlan           `json:"rejected,omitzero" doc:"The plans that --max-memory rejected; the plan of --strategy is first."`
	Within       *WithinMemory            `json:"within_memory,omitzero" doc:"A comparison of the plan with the other plans that --max-memory admits."`
	Advice       *layout.Advice           `json:"advice,omitzero" doc:"Changes of the graph or of its inputs that would reduce the cost, for strategy optimal."`
	Best         []experiment.Choice      `json:"best,omitzero" doc:"The cheapest plans, for --k-best."`
	BestTimedOut bool                     `json:"best_timed_out,omitzero" doc:"Whether the time limit ended the search for the plans of --k-best; left out if false."`
	BestWanted   int                      `json:"best_wanted,omitzero" doc:"The value of --k-best."`
	Sensitivity  *layout.Sensitivity      `json:"sensitivity,omitzero" doc:"The prices of copies at which another plan is the cheapest, for --sensitivity."`
	Classes      []inspect.Specialization `json:"classes,omitzero" doc:"The plans for symbolic sizes, with the sizes that each plan serves."`
	ForAll       []inspect.Proof          `json:"for_all,omitzero" doc:"The results of --for-all."`
	Solution     *Solution                `json:"solution,omitzero" doc:"The solution of --solution, compared with the least cost."`
	Code         *inspect.StepCode        `json:"code,omitzero" doc:"The code of the step that --code names."`
}

// planDocOf returns the document of a program, without the results of flags.
func planDocOf(p *graphrun.Program) *Document { return &Document{Plan: *p.Report()} }

// Solution compares the solution of --solution with the lower bound on the cost of any plan.
type Solution struct {
	HasProof bool     `json:"has_proof" doc:"Whether the file has a proof of its lower bound, which was checked; otherwise the bound is that of strategy optimal."`
	Gap      *float64 `json:"gap" doc:"The cost of the solution less the lower bound, divided by the bound; null if no bound is known."`
}

// MeasuredPlan compares measured times of steps with their estimates.
type MeasuredPlan struct {
	Runs        int     `json:"runs" doc:"The number of runs, by one worker."`
	MeasuredNS  float64 `json:"measured_ns" doc:"The sum of the medians of all steps, in nanoseconds."`
	PredictedNS float64 `json:"predicted_ns" doc:"The sum of the estimated costs of the same steps, in nanoseconds."`
	MedianError float64 `json:"median_error" doc:"The median over steps of the estimate's relative error."`
	P90Error    float64 `json:"p90_error" doc:"The 90th percentile over steps of the estimate's relative error."`
}

// RejectedPlan is a plan whose runs need more memory than --max-memory.
type RejectedPlan struct {
	Strategy string  `json:"strategy" doc:"The strategy of the plan."`
	Bytes    int     `json:"needs_bytes" doc:"The memory of a run."`
	CostNS   float64 `json:"cost_ns" doc:"The estimated cost of the plan, in nanoseconds."`
}

// WithinMemory compares a plan with the other plans that --max-memory admits.
type WithinMemory struct {
	Tried        int     `json:"tried" doc:"The number of plans that the search of the layout problem examined and rejected for their memory."`
	LowerBoundNS float64 `json:"lower_bound_ns" doc:"A lower bound on the cost of the admitted plans."`
	Optimal      bool    `json:"optimal" doc:"Whether the plan is the cheapest admitted plan."`
	LeastBytes   int     `json:"least_bytes" doc:"A lower bound on the memory of a run of any plan."`
}
