package progress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLine(t *testing.T) {
	j := &Job{name: "a.json"}
	j.Enter(Loading)
	assert.Equal(t, "loading a.json 1.3s", j.line(1260*time.Millisecond))
	j.Report(0, 12)
	assert.Equal(t, "running a.json [>                   ] 0 / 12 1.3s", j.line(1260*time.Millisecond))
	j.Report(3, 12)
	j.countStart.Store(time.Now().Add(-2 * time.Second).UnixNano())
	assert.Equal(t, "running a.json [=====>              ] 3 / 12 about 6s left, after 2s", j.line(2*time.Second))
	j.Report(12, 12)
	assert.Equal(t, "running a.json [====================] 12 / 12 2s", j.line(2*time.Second))
	j.Report(13, 12) // a run that plans more parts
	assert.Equal(t, "running a.json [====================] 13 / 12 2s", j.line(2*time.Second))
}
