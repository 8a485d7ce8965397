"""The client of the SDK, and the credentials that it is given."""

from __future__ import annotations

from typing import Any, Final

import google.auth
from google.auth.credentials import AnonymousCredentials, Credentials
from google.cloud import storage
from google.oauth2 import credentials as oauth2
from google.oauth2 import service_account

from siltstone.bindings.gcs.session import GOOGLE, make_session
from siltstone.bindings.gcs.settings import GcsSettings

SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_write",)


def make_client(settings: GcsSettings) -> storage.Client:
    """Return a client; nothing is sent but what finding credentials needs.

    Raises:
        google.auth.exceptions.GoogleAuthError: there are no credentials.
        ValueError: the file of the credentials is none.
    """
    credentials = _credentials(settings)
    client = storage.Client(
        project=None,
        credentials=credentials,
        _http=make_session(credentials, settings),
        # Named always, so that variables for emulators send no data elsewhere.
        client_options={"api_endpoint": settings.endpoint or GOOGLE},
    )
    # Else a thread of the SDK asks for the bucket during the first call, again and again, for
    # traces that were not asked for and with a right that a store does not need.
    client._bucket_metadata_cache = None
    return client


def _credentials(settings: GcsSettings) -> Credentials:
    made: Any
    if settings.anonymous:
        return AnonymousCredentials()  # type: ignore[no-untyped-call]
    if settings.token is not None:
        made = oauth2.Credentials(token=settings.token.get_secret_value())  # type: ignore[no-untyped-call]
    elif settings.credentials_file is not None:
        made = service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            str(settings.credentials_file), scopes=SCOPES
        )
    else:
        made, _ = google.auth.default(scopes=SCOPES)
    if settings.quota_project is not None:
        made = made.with_quota_project(settings.quota_project)
    return made  # type: ignore[no-any-return]
