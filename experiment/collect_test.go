package experiment

import _ "github.com/graphrun/graphrun/internal/testsize" // collects garbage less often
