package api

// PageSize is the maximum number of autoscalers per response.
const PageSize = pageSize
