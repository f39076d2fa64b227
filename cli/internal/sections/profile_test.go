package sections

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/report"
)

// TestPricedBy: plans say which default profiles are estimated.
func TestPricedBy(t *testing.T) {
	for name, want := range map[string]string{
		"avx2":  "the default profile for avx2 (0123456789ab)",
		"arm64": "the default profile for arm64, estimated (0123456789ab)",
	} {
		p := pricing.ShippedProfile(name)
		assert.Equal(t, want, ProfileText(report.Profile{Digest: "0123456789abcdef", Instructions: p.Instructions,
			Estimated: p.Estimated, Default: true}))
	}
}
