package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/experiment"
)

// A profile warns of a single run, and of runs that vary.
func TestNoise(t *testing.T) {
	for want, times := range map[string][]float64{
		"":                   {1000, 1010, 1020},
		"a single run":       {1000},
		"is 80% of the medi": {1000, 1500, 2000, 2500, 3000},
	} {
		got := noiseOf(experiment.SpreadOf(times))
		assert.Contains(t, got, want)
		assert.Equal(t, want == "", got == "")
	}
}

// The summary names the ops with the greatest share, and the slowest step, which may be of other ops.
func TestProfileSummary(t *testing.T) {
	d := &ProfileDoc{ByOp: []timeDoc{{Op: "conv2d", Share: 0.6}}, ByStep: []stepDoc{
		{Name: "shared", timeDoc: timeDoc{Op: "conv2d", Time: 4e6, Busy: 8e6}},
		{Name: "slow", timeDoc: timeDoc{Op: "linear", Time: 5.2e6, Busy: 5.2e6, Predicted: 7e5}}}}
	assert.Equal(t, "conv2d takes 60.0% of the workers' time in steps; the slowest step is slow with 5.2ms, predicted "+
		"700µs on one core", d.summary())
	assert.Equal(t, "no step was run", new(ProfileDoc).summary())
}
