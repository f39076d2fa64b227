package bench

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/page"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/pricing"
)

// A profile warns of few runs, and of runs that vary.
func TestNoise(t *testing.T) {
	for want, times := range map[string][]float64{
		"":                   {1000, 1010, 1020},
		"a single run":       {1000},
		"only 2 runs":        {1000, 1010},
		"is 80% of the medi": {1000, 1500, 2000, 2500, 3000},
	} {
		spread := experiment.SpreadOf(times)
		got := profileNoise(&spread)
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

// Times that contradict the prediction or each other are marked as doubtful, in the text and on the page, with one
// statement of the disturbances of the measurement.
func TestDoubtfulTimes(t *testing.T) {
	const ms = 1e6
	slow := stepDoc{Name: "slow", timeDoc: timeDoc{Op: "linear", Time: 26 * ms, Busy: 26 * ms, Predicted: 0.33 * ms},
		busyByRun: []float64{26 * ms, 26 * ms}}
	varying := stepDoc{Name: "varying", timeDoc: timeDoc{Op: "conv2d", Time: 2 * ms, Busy: 2 * ms, Predicted: 2 * ms},
		busyByRun: []float64{1 * ms, 3 * ms}}
	fine := stepDoc{Name: "fine", timeDoc: timeDoc{Op: "relu", Time: 1 * ms, Busy: 1 * ms, Predicted: 0.5 * ms},
		busyByRun: []float64{0.9 * ms, 1.1 * ms}}
	small := stepDoc{Name: "small", timeDoc: timeDoc{Op: "neg", Time: 900, Busy: 900, Predicted: 10},
		busyByRun: []float64{100, 1700}}
	steps := []stepDoc{slow, varying, fine, small}
	for i := range steps {
		steps[i].Doubt = steps[i].doubt(30 * ms)
	}
	assert.Equal(t, "79 times the prediction", steps[0].Doubt)
	assert.Equal(t, "from 1ms to 3ms in the averaged runs", steps[1].Doubt)
	assert.Empty(t, steps[2].Doubt)
	assert.Empty(t, steps[3].Doubt)

	spread := experiment.SpreadOf([]float64{30 * ms, 31 * ms, 32 * ms})
	d := &Document{Spread: spread, RunReleased: CallReport{Spread: spread}, Into: CallReport{Spread: spread},
		ProfileDoc: &ProfileDoc{ByStep: steps, ByOp: timesByOp(steps)}}
	load := 1.5
	d.Noise = d.disturbances(&load)
	assert.Equal(t, "1.5 threads of other processes were runnable on average; the time of 2 steps is doubtful: slow (79 "+
		"times the prediction), varying (from 1ms to 3ms in the averaged runs)", d.Noise)
	var text strings.Builder
	out := bufio.NewWriter(&text)
	d.writeText(out, term.Display{}, true)
	require.NoError(t, out.Flush())
	var html strings.Builder
	sections := append([]page.Section{d.predictionSection(), d.rooflineSection(pricing.SharedDefaultProfile())},
		d.tableSections()...)
	require.NoError(t, (&page.Page{Warnings: d.warnings(), Sections: sections}).Write(&html))
	for _, written := range []string{text.String(), html.String()} {
		assert.Contains(t, strings.Join(strings.Fields(written), " "), "disturbed measurement: "+d.Noise)
		assert.Contains(t, written, doubtHead)
	}
	assert.Contains(t, html.String(), ">1?</text>")
	assert.Contains(t, html.String(), "measured 26ms; doubtful: 79 times the prediction")
	assert.NotContains(t, html.String(), ">3?</text>")
}
