package view

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/report"
)

// measuredTimes has the times in the file of --profile: the output of bench --profile --json or plan --measure --json.
type measuredTimes struct {
	Strategy string `json:"strategy"`
	ByStep   []struct {
		Name string  `json:"name"`
		Time float64 `json:"time_ns"`
	} `json:"by_step"`
	Steps json.RawMessage `json:"steps"` // a list in the output of plan, a number in the output of bench
}

// maxProfileBytes bounds the bytes that are read of the file of --profile.
const maxProfileBytes = 1 << 28

// readTimes returns the strategy and the measured time of each step in the file of --profile.
func readTimes(path string) (strategy string, times map[string]float64, err error) {
	file, _, err := files.OpenRegular(path)
	if err != nil {
		return "", nil, exit.UsageErrorf("--profile: %w", files.Reword(path, err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxProfileBytes))
	if err != nil {
		return "", nil, exit.UsageErrorf("--profile: %w", files.Reword(path, err))
	}
	var doc measuredTimes
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", nil, exit.UsageErrorf("--profile: %w",
			files.WithPath(path, fmt.Errorf("not the output of bench --profile --json: %w", err)))
	}
	times = map[string]float64{}
	for _, s := range doc.ByStep {
		times[s.Name] += s.Time
	}
	var steps []report.Step
	if json.Unmarshal(doc.Steps, &steps) == nil {
		for _, s := range steps {
			if s.MeasuredNS != nil {
				times[s.Name] = *s.MeasuredNS
			}
		}
	}
	if len(times) == 0 {
		return "", nil, exit.UsageErrorf("--profile: %s: it has no times of steps: want the output of bench --profile "+
			"--json, or of plan --measure --json", path)
	}
	return doc.Strategy, times, nil
}

// addTimes sets the measured times of the steps of a plan, and returns a remark with their sum.
func (f *flags) addTimes(r *report.Plan) (string, error) {
	if f.profile == "" {
		return "", nil
	}
	strategy, times, err := readTimes(f.profile)
	if err != nil {
		return "", err
	}
	count := 0
	measured, predicted := 0.0, 0.0
	for i := range r.Steps {
		s := &r.Steps[i]
		if ns, found := times[s.Name]; found {
			s.MeasuredNS = &ns
			count++
			measured, predicted = measured+ns, predicted+s.CostNS
		}
	}
	if count == 0 || strategy != r.Strategy {
		return "", exit.UsageErrorf("--profile: %s has times for %d of %s, measured with strategy %s; measure the plan of "+
			"strategy %s instead", f.profile, count, format.Count(len(r.Steps), "step"), strategy, r.Strategy)
	}
	return fmt.Sprintf("measured %s, predicted %s, in %d of %s", format.Nanoseconds(measured),
		format.Nanoseconds(predicted), count, format.Count(len(r.Steps), "step")), nil
}
