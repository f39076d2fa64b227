//go:build !direct

package inference

import _ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

// Prism is the default runner of users, so that it is the default of tests.
const runner = "prism"
