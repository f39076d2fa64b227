package study

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"time"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// planFormat is a part of the digest of a task. Developers increase it when a change of graphrun changes plans or
// prices, so that older stored results are not reused.
const planFormat = 1

// Task is a unit of work of a study: every strategy plans one model with given sizes under one condition. The digest of
// a task is the digest of its JSON.
type Task struct {
	PlanFormat        int            `json:"plan_format" doc:"The version of plans and prices: 1."`
	Model             string         `json:"model" doc:"The name of the model."`
	ModelDigest       string         `json:"model_digest" doc:"The sha256 of the model's file or, with weights in other files, of the names and digests of all its files."`
	Dims              map[string]int `json:"dims" doc:"The sizes of symbols."`
	Condition         string         `json:"condition" doc:"The name of the condition."`
	Profile           string         `json:"profile_digest" doc:"The sha256 of the canonical JSON of the prices, after the condition's factor is applied to the prices of copies."`
	EqualLayoutPrices bool           `json:"equal_layouts" doc:"Whether ops on images have the same price in row-major and channels-last layout: the lower of the two prices."`
	NoFusion          bool           `json:"no_fusion" doc:"Whether nodes are not fused."`
	Exact             bool           `json:"exact" doc:"Whether implementations are excluded that round differently from the definition."`
	Threads           int            `json:"threads" doc:"The number of workers of measured runs; 0: plans are not measured."`
	Runs              int            `json:"runs" doc:"The number of measured runs of each plan; 0: plans are not measured."`
	Seed              int            `json:"seed" doc:"The seed of generated inputs and of the order of runs."`
	Strategies        []string       `json:"strategies" doc:"The strategies."`
	SolverLimit       string         `json:"solver_time_limit" doc:"The time limit of the solver for each plan and each bound."`
	Tune              string         `json:"tune,omitzero" doc:"The budget of tune, which measures the prices; left out for the prices of the profile."`
	Instructions      string         `json:"instructions" doc:"The instruction set, which determines the implementations."`

	file        string           // path of the model
	unreadable  error            // the reason why the model has no digest; nil if it has one
	profile     *pricing.Profile // the prices, whose digest is Profile
	solverLimit time.Duration    // SolverLimit as a duration
	tune        time.Duration    // Tune as a duration; 0 without it
}

// digest returns the sha256 of the task's JSON, which names the file of the result.
func (t *Task) digest() string { return machine.DigestOfJSON(t) }

// planCount returns the number of plans of the result: one for each strategy, and those that tune adds.
func (t *Task) planCount() int {
	if t.Tune != "" {
		return len(t.Strategies) + 2
	}
	return len(t.Strategies)
}

// graph returns the name of the model with its sizes.
func (t *Task) graph() string {
	if len(t.Dims) == 0 {
		return t.Model
	}
	return t.Model + " " + program.SizesText(t.Dims)
}

// String names the task for users.
func (t *Task) String() string {
	text := t.graph() + ", " + t.Condition
	if t.Threads > 0 {
		text += ", " + format.Count(t.Threads, "thread")
	}
	return text
}

// tasks returns the tasks of a study, sorted by model, sizes, condition and threads. Tasks of the same graph are
// consecutive, so that each graph is read once. models is the folder of the models. Tasks of a missing model are in
// the list, too, so that the parts of --shard are the same on each machine. After ctx has ended, no further model is
// read.
func (s *Study) tasks(ctx context.Context, ext *command.Extensions, models string) (list []*Task) {
	for _, m := range s.Models {
		path := filepath.Join(models, filepath.FromSlash(m.File))
		digest, err := "", ctx.Err()
		if err == nil {
			digest, err = digestOfModel(ext, path)
		}
		for _, dims := range m.Dims {
			for _, c := range s.Conditions {
				for _, threads := range c.threads() {
					t := s.newTask(&c, threads)
					t.Model, t.ModelDigest, t.Dims = m.Name, digest, dims
					t.file, t.unreadable = path, err
					list = append(list, t)
				}
			}
		}
	}
	return list
}

// newTask returns a task without a model.
func (s *Study) newTask(c *Condition, threads int) *Task {
	t := &Task{PlanFormat: planFormat,
		Condition: c.Name, Profile: c.profile.Digest(), EqualLayoutPrices: c.EqualLayoutPrices, NoFusion: c.NoFusion,
		Exact: c.Exact, Threads: threads, Strategies: s.Strategies, SolverLimit: s.solverLimit.String(),
		Instructions: machine.HostWithUnit().String(), profile: c.profile, solverLimit: s.solverLimit}
	if threads > 0 {
		t.Runs, t.Seed = s.Runs, s.Seed
		t.Tune, t.tune = c.Tune, c.tune
	}
	return t
}

// missingModel returns the error of the first unreadable model, or nil if all models are readable. If needAll is false,
// it returns the error only if no model is readable.
func missingModel(list []*Task, needAll bool) (first error) {
	unreadable := 0
	for _, t := range list {
		if t.unreadable != nil {
			first = cmp.Or(first, t.unreadable)
			unreadable++
		}
	}
	if needAll || unreadable == len(list) {
		return first
	}
	return nil
}

// threads returns the numbers of workers of a condition's tasks; 0 means that plans are not measured.
func (c *Condition) threads() []int {
	if len(c.Threads) == 0 {
		return []int{0}
	}
	return c.Threads
}

// tasksOf returns the tasks of a shard. They are consecutive in list, so that a shard reads few graphs.
func tasksOf(list []*Task, s command.Shard) []*Task {
	return list[s.Index*len(list)/s.Count : (s.Index+1)*len(list)/s.Count]
}

// Result is the result of a task, with all information that is needed to repeat the task.
type Result struct {
	Version   int     `json:"version" doc:"The version of the file: 1."`
	Digest    string  `json:"digest" doc:"The sha256 of the task's canonical JSON, which names the file."`
	Task      Task    `json:"task" doc:"The task."`
	Date      string  `json:"date" doc:"The time at which the task ended (RFC 3339)."`
	TookMS    float64 `json:"took_ms" doc:"The duration of the task in milliseconds."`
	Build     string  `json:"build" doc:"The version of graphrun."`
	Command   string  `json:"command" doc:"The command line, without the folders of files."`
	CPU       string  `json:"cpu" doc:"The processor."`
	Platform  string  `json:"platform" doc:"The operating system and the architecture."`
	CPUs      int     `json:"cpus" doc:"The number of logical processors."`
	Variables int     `json:"variables" doc:"The variables of the layout problem."`
	Factors   int     `json:"factors" doc:"The cost tables of the layout problem."`
	BoundNS   float64 `json:"lower_bound_ns" doc:"A lower bound on the cost of any plan, in nanoseconds."`
	Optimal   bool    `json:"optimal" doc:"Whether the solver found a plan with the cost of the lower bound."`
	Certified bool    `json:"certified" doc:"Whether the checker accepted the proof of the bound."`
	ProofSize int     `json:"certificate_bytes" doc:"The size of the problem, its solution and the proof as JSON."`
	Plans     []Plan  `json:"plans" doc:"The plan of each strategy."`
	// Tuned and Regret are set if the task has a budget of tune.
	Tuned  string              `json:"tuned,omitzero" doc:"The result of tune in words; left out without it."`
	Regret *layout.RegretBound `json:"regret,omitzero" doc:"The regret of the cheapest plan at the measured prices; left out without tune."`
	// Differences lists outputs that differ between strategies. It is empty without measurement.
	Differences []string `json:"differences" doc:"Outputs that differ between strategies, in words."`
	Noise       string   `json:"noise,omitzero" doc:"What disturbed the measurement, in words; left out for nothing."`
	Checksum    string   `json:"sum" doc:"The sha256 of this object's canonical JSON with an empty sum."`
}

// Plan is the plan of one strategy.
type Plan struct {
	Strategy string `json:"strategy" doc:"The strategy."`
	Plan     string `json:"plan" doc:"The sha256 of the plan's steps; strategies with the same plan share their measurements."`
	report.Costs
	// SavedNS is a saving that the layout problem does not model. CostNS is the cost in the layout problem minus SavedNS.
	SavedNS  float64 `json:"saved_ns" doc:"The nanoseconds saved by results that are written in place, which the layout problem does not model; they are already subtracted from the cost."`
	Gap      float64 `json:"gap" doc:"The cost less the lower bound, divided by the lower bound; negative if saved_ns exceeds the distance to the bound."`
	LayoutMS float64 `json:"layout_ms" doc:"The time of the layout pass, in milliseconds."`
	experiment.Spread
	Regret  *float64  `json:"measured_regret,omitzero" doc:"The median less the least median of the plans, divided by the least median; left out without measurement."`
	Samples []float64 `json:"samples_ns" doc:"The time of each measured run, in nanoseconds, in the order of the runs."`
}

// setGaps computes the gaps of the plans.
func (r *Result) setGaps() {
	for i := range r.Plans {
		plan := &r.Plans[i]
		plan.Gap = plan.CostNS/r.BoundNS - 1
		if math.Abs(plan.Gap) < gapTolerance || r.BoundNS == 0 {
			plan.Gap = 0
		}
	}
}

// best returns the plan of least cost. Among plans of equal cost, it returns the plan with the fewest copies. Among
// plans with equally many copies, it returns the plan with the fewest copied bytes.
func (r *Result) best() *Plan {
	least := &r.Plans[0]
	for i := range r.Plans {
		p := &r.Plans[i]
		if cmp.Or(cmp.Compare(p.CostNS, least.CostNS), cmp.Compare(p.Copies, least.Copies),
			cmp.Compare(p.CopiedBytes, least.CopiedBytes)) < 0 {
			least = p
		}
	}
	return least
}
