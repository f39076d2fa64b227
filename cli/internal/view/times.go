package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/report"
)

// measuredTimes is the content of the file that --profile names: the output of "bench --profile --json" or of "plan
// --measure --json".
type measuredTimes struct {
	Strategy string         `json:"strategy"`
	Dims     map[string]int `json:"dims"`
	Threads  int            `json:"threads"` // 0 in the output of plan, which measures with one worker
	Noise    string         `json:"noise"`   // what disturbed the measurement
	ByStep   []struct {
		Name string  `json:"name"`
		Time float64 `json:"time_ns"`
	} `json:"by_step"`
	Steps json.RawMessage `json:"steps"` // a list in the output of plan, a number in the output of bench
}

// maxProfileBytes is the maximum size of the file that --profile names.
const maxProfileBytes = 1 << 28

// readTimes reads the file that --profile names, and returns its content and the measured time of each step.
func readTimes(path string) (doc *measuredTimes, times map[string]float64, err error) {
	file, _, err := files.OpenRegular(path)
	if err != nil {
		return nil, nil, exit.UsageErrorf("--profile: %w", files.Reword(path, err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxProfileBytes))
	if err != nil {
		return nil, nil, exit.UsageErrorf("--profile: %w", files.Reword(path, err))
	}
	doc = new(measuredTimes)
	if err := files.DecodePartOfJSON(text, doc); err != nil {
		return nil, nil, exit.UsageErrorf("--profile: %w",
			files.WithPath(path, fmt.Errorf("the file is not the output of bench --profile --json or of plan --measure "+
				"--json: %w", err)))
	}
	times = map[string]float64{}
	for _, step := range doc.ByStep { // a step of a loop body may have the name of another step
		times[step.Name] += step.Time
	}
	var steps []report.Step
	if json.Unmarshal(doc.Steps, &steps) == nil { // fails for the output of bench, whose times are in ByStep
		for _, step := range steps {
			if step.MeasuredNS != nil {
				times[step.Name] = *step.MeasuredNS
			}
		}
	}
	if len(times) == 0 {
		return nil, nil, exit.UsageErrorf("--profile: %s: the file has no step times: it must be the output of bench "+
			"--profile --json, or of plan --measure --json", path)
	}
	return doc, times, nil
}

// addTimes sets the measured times of the steps of a plan. sizes are the sizes of the plan's symbols. It returns a
// remark with the sums of the measured and of the predicted times, or "" without --profile.
func (f *flags) addTimes(plan *report.Plan, sizes map[string]int) (string, error) {
	if f.profile == "" {
		return "", nil
	}
	doc, times, err := readTimes(f.profile)
	if err != nil {
		return "", err
	}
	if !maps.Equal(doc.Dims, sizes) {
		advice := "omit --dim"
		if len(doc.Dims) > 0 {
			advice = "add --dim " + strings.ReplaceAll(program.SizesText(doc.Dims), ", ", " --dim ")
		}
		return "", exit.UsageErrorf("--profile: %s was measured with %s, but the plan has %s: %s", f.profile,
			cmp.Or(program.SizesText(doc.Dims), "no symbolic sizes"),
			cmp.Or(program.SizesText(sizes), "no symbolic sizes"), advice)
	}
	timed := 0
	measured, predicted := 0.0, 0.0
	for i := range plan.Steps {
		step := &plan.Steps[i]
		if ns, found := times[step.Name]; found {
			step.MeasuredNS = &ns
			timed++
			measured, predicted = measured+ns, predicted+step.CostNS
		}
	}
	switch {
	case doc.Strategy != plan.Strategy:
		return "", exit.UsageErrorf("--profile: %s was measured with strategy %s, but the plan has strategy %s", f.profile,
			doc.Strategy, plan.Strategy)
	case timed == 0:
		return "", exit.UsageErrorf("--profile: %s has no time for any of the plan's %s", f.profile,
			format.Count(len(plan.Steps), "step"))
	}
	remark := fmt.Sprintf("measured %s with %s, predicted %s, in %d of %s", format.Nanoseconds(measured),
		format.Count(max(1, doc.Threads), "worker"), format.Nanoseconds(predicted), timed,
		format.Count(len(plan.Steps), "step"))
	if doc.Noise != "" {
		remark += "; disturbed measurement: " + doc.Noise
	}
	return remark, nil
}
