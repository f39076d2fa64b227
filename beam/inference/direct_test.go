//go:build direct

package inference

import _ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"

// With the build tag direct, tests need a third of the packages that Prism needs, so that CI runs them.
const runner = "direct"
