package pricing

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Plans that a [Tuned] may choose. Any other name is the name of a strategy.
const (
	MeasuredPlan  = "measured"  // the cheapest plan at the measured prices
	PredictedPlan = "predicted" // the plan without measured prices
	LabeledPlan   = "labels"    // the plan of Tuned.Labels
)

// Tuned is the result of measurements of one graph on one machine: prices, and the plan that was fastest. As a file it
// is also a file of prices, see [ReadPrices].
type Tuned struct {
	Version int    `json:"version" const:"1" doc:"The version of the file: 1."`
	Graph   string `json:"graph" doc:"The name of the graph; it may be empty."`
	// Call, Machine, Threads and Release say when the result holds: they must equal those of the program that uses it.
	Call    string         `json:"call" doc:"A sha256 of the structure of the graph and of the options that choose among its plans. The data of constants does not count."`
	Machine string         `json:"machine" doc:"The processor, its instruction set and the number of cores."`
	Threads int            `json:"threads" doc:"The number of workers of a run."`
	Release string         `json:"release" doc:"The version of graphrun."`
	Sizes   map[string]int `json:"sizes,omitempty" doc:"The sizes of symbols in the measured runs."`
	// Plan is the plan to use at the measured sizes, one of the constants. Plans for other sizes are the cheapest at
	// the prices, unless the plan without prices was fastest.
	Plan   string            `json:"plan" doc:"The plan that was fastest: measured (the cheapest at these prices), predicted (the cheapest without them), labels (that of the labels), or the name of a strategy."`
	Labels map[string]string `json:"labels,omitempty" doc:"The labels of the plan, by variable of the layout problem; left out unless the plan is labels."`
	// NS and PredictedNS are for readers only.
	NS          float64      `json:"ns,omitzero" doc:"The median time of a run of the plan, in nanoseconds."`
	PredictedNS float64      `json:"predicted_plan_ns,omitzero" doc:"The median time of a run of the plan without measured prices, in nanoseconds."`
	Summary     string       `json:"summary" doc:"The result in words."`
	Prices      []LabelPrice `json:"prices" doc:"The measured prices."`
}

// ReadTuned reads a tuned file and checks it. Errors name the place.
func ReadTuned(r io.Reader) (*Tuned, error) {
	if r == nil {
		return nil, errors.New("the reader is nil")
	}
	var tuned Tuned
	if err := json.UnmarshalRead(r, &tuned, jsontext.AllowDuplicateNames(false)); err != nil {
		return nil, withoutGoTypes(err)
	}
	switch {
	case tuned.Version != PricesVersion:
		return nil, fmt.Errorf("version %d: want %d", tuned.Version, PricesVersion)
	case tuned.Call == "" || tuned.Plan == "" || tuned.Machine == "" || tuned.Threads < 1:
		return nil, errors.New("the file is not a result of tune: \"call\", \"machine\", \"threads\" or \"plan\" is missing")
	case tuned.Plan == LabeledPlan && len(tuned.Labels) == 0:
		return nil, errors.New("plan \"labels\": the labels are missing")
	}
	return &tuned, checkPrices(tuned.Prices)
}

// Explain returns an error that says why a program with the call, machine, threads and release of t cannot use another
// result, or nil if it can.
func (t *Tuned) Explain(other *Tuned) error {
	switch {
	case t == nil || other == nil:
		return errors.New("there is no result")
	case other.Machine != t.Machine:
		return fmt.Errorf("it was measured on another machine (%s; this is %s): tune the graph on this machine",
			other.Machine, t.Machine)
	case other.Threads != t.Threads:
		return fmt.Errorf("it was measured with threads=%d, and the program has threads=%d", other.Threads, t.Threads)
	case other.Release != t.Release:
		return fmt.Errorf("it was measured with graphrun %s, and this is %s: tune the graph again", other.Release, t.Release)
	case other.Call != t.Call:
		return fmt.Errorf("it was measured for another graph or other options (graph %q): sizes, pins and options must be "+
			"those of tune", other.Graph)
	}
	return nil
}

// Write writes the result as JSON.
func (t *Tuned) Write(w io.Writer) error {
	if t == nil || w == nil {
		return errors.New("the result or the writer is nil")
	}
	text, err := json.Marshal(t, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
